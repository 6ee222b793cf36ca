#pragma once

#include <vector>

#include "comm/process_grid.h"
#include "model/parameters.h"

namespace fathom::train {

/// Sums a step's gradients over the ranks that share parameters and over data-parallel replicas.
/// The reduction of a bucket starts as soon as the backward pass has made it final, and overlaps
/// what is left of that pass. All ranks of a data-parallel group hold the same buckets.
class GradientReducer {
 public:
  /// `kv_replicas` is the group of tensor ranks with the same key/value heads, or null.
  GradientReducer(comm::ProcessGrid& grid, comm::Communicator* kv_replicas,
                  model::ParameterSet& parameters);

  /// Buckets become final from the last to the first. Safe to call from within the backward pass;
  /// may block on the key/value replicas, which take the same path.
  void bucket_done(int bucket);

  /// Reduces what bucket_done() has not been told of (a rank without micro-batches is told nothing)
  /// and waits for everything. Collective over the data-parallel group and over sharing groups.
  void finish();

 private:
  bool waits_for_other_stage(int bucket) const;
  void sum_shared(int bucket, model::Sharing sharing, comm::Communicator& group);
  void start(int bucket);

  comm::ProcessGrid& grid_;
  comm::Communicator* kv_replicas_;
  model::ParameterSet& parameters_;
  std::vector<comm::Request> pending_;
  int next_;  // the bucket that must come next
};

}  // namespace fathom::train
