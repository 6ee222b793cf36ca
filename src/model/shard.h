#pragma once

#include <cstdint>

#include "model/spec.h"

namespace fathom::model {

/// One tensor rank's share of a model: how many heads, which key/value heads, which feed-forward
/// columns and which rows of the vocabulary.
struct Shard {
  int rank = 0, size = 1;
  std::int64_t heads = 0, first_head = 0;
  std::int64_t kv_heads = 0, first_kv_head = 0;
  int kv_replicas = 1;  ///< tensor ranks that hold the same key/value heads
  std::int64_t ffn = 0, first_ffn = 0;
  std::int64_t vocab = 0, first_vocab = 0;

  bool whole() const { return size == 1; }
};

/// The share of rank `rank` of `size`. The vocabulary is cut into ranges of ceil(loss_vocab / size)
/// entries, the last rank taking whatever is left, so that no padding exists anywhere; `loss_vocab`
/// is the vocabulary that teacher and student share. Throws Error(config) naming the tp values that
/// would do.
Shard make_shard(const ModelSpec& spec, int rank, int size, std::int64_t loss_vocab);

/// The values of grid.tp that a model allows, up to 64.
std::string allowed_tp(const ModelSpec& spec);

}  // namespace fathom::model
