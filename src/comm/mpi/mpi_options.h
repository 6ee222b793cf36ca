#pragma once

#include <cstddef>

namespace fathom::comm {

struct MpiOptions {
  /// The largest piece that a single MPI call is given; tests lower it to exercise the splitting.
  std::size_t chunk_bytes = std::size_t{1} << 30;
  /// Between ranks of one node, a float all-reduce of at least this many bytes goes through memory
  /// that they share. The largest std::size_t turns that off, and no memory is taken.
  std::size_t shared_min_bytes = std::size_t{1} << 12;
  /// That memory, for each group of ranks.
  std::size_t shared_group_bytes = std::size_t{1} << 22;
  /// How long the start of the ranks and their end may take before the job is aborted; 0: for ever.
  double watch_seconds = 0;
};

}  // namespace fathom::comm
