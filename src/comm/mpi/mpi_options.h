#pragma once

#include <cstddef>

namespace fathom::comm {

struct MpiOptions {
  /// The largest piece that a single MPI call is given; tests lower it to exercise the splitting.
  std::size_t chunk_bytes = std::size_t{1} << 30;
  /// Between ranks of one node, a float all-reduce of at least this many bytes goes through memory
  /// that they share, in pieces of `shared_piece_bytes` (per group: ranks x 2 pieces). The largest
  /// std::size_t turns that off.
  std::size_t shared_min_bytes = std::size_t{1} << 15;
  std::size_t shared_piece_bytes = std::size_t{1} << 18;
};

}  // namespace fathom::comm
