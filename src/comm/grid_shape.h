#pragma once

#include <optional>
#include <string>

namespace fathom::comm {

/// The three axes of the process grid. Ranks are numbered with tensor fastest and data slowest, so
/// that tensor peers, which talk most, are neighbours on a node. Pure arithmetic: a dry run uses it
/// without MPI.
struct GridShape {
  int dp = 1;
  int pp = 1;
  int tp = 1;

  int ranks() const { return dp * pp * tp; }
  bool operator==(const GridShape&) const = default;
};

/// A rank's place on the grid.
struct GridCoordinates {
  int dp = 0;
  int pp = 0;
  int tp = 0;

  bool operator==(const GridCoordinates&) const = default;
};

/// "dp 2 x pp 2 x tp 1".
std::string to_string(const GridShape& shape);

/// Throws Error(config) unless every axis is at least 1 and the rank count fits an int.
void validate(const GridShape& shape);

/// Requires 0 <= rank < shape.ranks().
GridCoordinates coordinates_of(const GridShape& shape, int rank);

/// The inverse of coordinates_of.
int rank_of(const GridShape& shape, const GridCoordinates& place);

/// How a model's key-value heads lie on the tensor axis.
struct KvHeadPlacement {
  int heads_per_rank = 1;
  int replicas = 1;  ///< tensor ranks that hold the same heads; consecutive in tp
};

/// Heads are divided over the ranks, or each is replicated when there are more ranks than heads.
/// Throws Error(config) unless one of tp and kv_heads is a multiple of the other.
KvHeadPlacement place_kv_heads(int tp, int kv_heads);

}  // namespace fathom::comm
