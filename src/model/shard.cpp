#include "model/shard.h"

#include <algorithm>

#include "core/error.h"

namespace fathom::model {
namespace {

bool divides(const ModelSpec& spec, std::int64_t tp) {
  const bool kv = spec.kv_heads % tp == 0 || tp % spec.kv_heads == 0;
  return spec.heads % tp == 0 && kv && spec.ffn % tp == 0 && spec.vocab >= tp;
}

}  // namespace

std::string allowed_tp(const ModelSpec& spec) {
  std::string list;
  for (std::int64_t tp = 1; tp <= 64; ++tp)
    if (divides(spec, tp)) list += (list.empty() ? "" : ", ") + std::to_string(tp);
  return list;
}

Shard make_shard(const ModelSpec& spec, int rank, int size, std::int64_t loss_vocab) {
  require(divides(spec, size), ErrorKind::config, "grid.tp = ", size,
          " does not divide a model of ", spec.heads, " attention heads, ", spec.kv_heads,
          " key/value heads, ", spec.ffn, " feed-forward columns and a vocabulary of ", spec.vocab,
          "; allowed: ", allowed_tp(spec));
  Shard shard;
  shard.rank = rank;
  shard.size = size;
  shard.heads = spec.heads / size;
  shard.first_head = rank * shard.heads;
  shard.kv_heads = std::max<std::int64_t>(1, spec.kv_heads / size);
  shard.first_kv_head = rank * spec.kv_heads / size;
  shard.kv_replicas = static_cast<int>(std::max<std::int64_t>(1, size / spec.kv_heads));
  shard.ffn = spec.ffn / size;
  shard.first_ffn = rank * shard.ffn;
  const std::int64_t each = (loss_vocab + size - 1) / size;
  shard.first_vocab = std::min(rank * each, spec.vocab);
  const std::int64_t end = rank == size - 1 ? spec.vocab : std::min((rank + 1) * each, spec.vocab);
  shard.vocab = end - shard.first_vocab;
  return shard;
}

}  // namespace fathom::model
