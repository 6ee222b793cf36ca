#include "comm/grid_shape.h"

#include <cstdint>
#include <limits>

#include "core/error.h"

namespace fathom::comm {

std::string to_string(const GridShape& shape) {
  return str("dp ", shape.dp, " x pp ", shape.pp, " x tp ", shape.tp);
}

void validate(const GridShape& shape) {
  const auto check_axis = [](const char* key, int value) {
    require(value >= 1, ErrorKind::config, key, " is ", value, "; it must be at least 1");
  };
  check_axis("grid.dp", shape.dp);
  check_axis("grid.pp", shape.pp);
  check_axis("grid.tp", shape.tp);
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  const bool fits = std::int64_t{shape.dp} * shape.pp <= most / shape.tp;
  require(fits, ErrorKind::config, "the process grid ", to_string(shape), " has more than ", most,
          " ranks");
}

GridCoordinates coordinates_of(const GridShape& shape, int rank) {
  FATHOM_CHECK(rank >= 0 && rank < shape.ranks(), "rank ", rank, " on ", to_string(shape));
  return {
      .dp = rank / (shape.tp * shape.pp), .pp = rank / shape.tp % shape.pp, .tp = rank % shape.tp};
}

int rank_of(const GridShape& shape, const GridCoordinates& place) {
  return (place.dp * shape.pp + place.pp) * shape.tp + place.tp;
}

KvHeadPlacement place_kv_heads(int tp, int kv_heads) {
  FATHOM_CHECK(tp >= 1 && kv_heads >= 1, "tp ", tp, ", key-value heads ", kv_heads);
  if (kv_heads % tp == 0) return {.heads_per_rank = kv_heads / tp, .replicas = 1};
  if (tp % kv_heads == 0) return {.heads_per_rank = 1, .replicas = tp / kv_heads};
  fail(ErrorKind::config, "grid.tp is ", tp, " but the model has ", kv_heads,
       " key-value heads: one must be a multiple of the other");
}

}  // namespace fathom::comm
