#include "model/shard.h"

#include <algorithm>

#include "core/error.h"

namespace fathom::model {
namespace {

bool divides(const ModelSpec& spec, std::int64_t tp) {
  // Ranks take whole groups of a key/value head and its queries, or share one head between them.
  const bool heads = tp <= spec.kv_heads || (tp % spec.kv_heads == 0 && spec.heads % tp == 0);
  return heads && spec.ffn % tp == 0 && spec.vocab >= tp;
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
  if (size <= spec.kv_heads) {
    // Where the number does not divide, some ranks have one group more.
    const std::int64_t group = spec.heads / spec.kv_heads;
    shard.first_kv_head = rank * spec.kv_heads / size;
    shard.kv_heads = (rank + 1) * spec.kv_heads / size - shard.first_kv_head;
    shard.first_head = shard.first_kv_head * group;
    shard.heads = shard.kv_heads * group;
  } else {
    shard.kv_replicas = size / static_cast<int>(spec.kv_heads);
    shard.first_kv_head = rank / shard.kv_replicas;
    shard.kv_heads = 1;
    shard.heads = spec.heads / size;
    shard.first_head = rank * shard.heads;
  }
  shard.ffn = spec.ffn / size;
  shard.first_ffn = rank * shard.ffn;
  const std::int64_t each = (loss_vocab + size - 1) / size;
  shard.first_vocab = std::min(rank * each, spec.vocab);
  const std::int64_t end = rank == size - 1 ? spec.vocab : std::min((rank + 1) * each, spec.vocab);
  shard.vocab = end - shard.first_vocab;
  return shard;
}

}  // namespace fathom::model
