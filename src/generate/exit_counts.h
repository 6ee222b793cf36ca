#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "model/spec.h"

namespace fathom::generate {

/// Where tokens left, and which late layers ran. Prompts run through all layers and do not count.
struct ExitCounts {
  explicit ExitCounts(std::size_t k = 0) : tokens(k), runs(k), copies(k) {}

  std::vector<std::int64_t> tokens;  ///< [k] by the deepest late layer that decided on them
  /// Of the steps that take in no prompt: their number, and by late layer those in which it ran for
  /// some row, or made keys and values without running.
  std::int64_t steps = 0;
  std::vector<std::int64_t> runs, copies;

  /// Of the same late layers.
  ExitCounts& operator+=(const ExitCounts& other);
  /// Adds those of all ranks of a group, on every rank. Collective.
  void sum_over(comm::Communicator& group);

  std::int64_t total() const;
  /// Layers that decide on a token, the deepest one counting.
  double average_depth(const model::ModelSpec& spec) const;
  /// How many times as fast as running every layer these steps can be at most (1 where there are
  /// none), where time is the
  /// weights of layers and head that are read: a layer that runs for one row is read for all.
  double bound(const model::ModelSpec& spec) const;
  /// All of it in a line; empty without tokens.
  std::string text(const model::ModelSpec& spec) const;
};

}  // namespace fathom::generate
