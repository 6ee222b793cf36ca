#pragma once

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "generate/exit_options.h"
#include "methods/mode/late_vote.h"

namespace fathom::generate {

/// Sets the weights behind the first ones that sum to `share` to 0 and divides the others by their
/// sum. Weights are a row that sums to 1; a share of 1 changes nothing.
void keep_until(std::span<float> weights, double share);

/// Late layers, counted from 1, up to the deepest with a weight: what a row of weights [k] needs.
std::int64_t depth_of(std::span<const float> weights);

/// The router, where late layers begin: it lives on the last stage and decides on an earlier one.
class ExitGate {
 public:
  /// Copies the last stage's router to every stage. Collective over the pipeline axis `pp`; the
  /// stage must outlive the gate.
  ExitGate(const ExitOptions& options, const methods::mode::LateVote& vote,
           const model::Stage& stage, comm::Communicator& pp);

  /// The weights [m, k], row by row, of the late layers that decide on each row of H_{n-k}
  /// [m, hidden]: the softmax over the scores of those that are kept, 0 for the others. Collective
  /// over the tensor group: what its first rank found is decided. Others on unlike processors might
  /// round a near tie the other way, run other rows, and wait for each other for ever.
  std::vector<float> weigh(const Tensor& states) const;

 private:
  ExitOptions options_;
  std::int64_t kept_;  // of the largest scores
  methods::mode::ModeSpec spec_;
  float norm_eps_;
  comm::Communicator* tp_;  // may be null
  methods::mode::RouterWeights router_;
};

}  // namespace fathom::generate
