#pragma once

#include <array>

#include "comm/communicator.h"
#include "data/batch.h"
#include "methods/distill/curriculum.h"
#include "methods/state_loss.h"
#include "model/head.h"

namespace fathom::train {

/// The curriculum of pairs (methods/distill/curriculum.h) on one rank: every answer has an alpha of
/// its own, from how likely both models find it before the step's update. The reference gaps are
/// the means over the pairs of the first step, which itself runs with the alpha given.
class RowAlpha {
 public:
  explicit RowAlpha(double alpha) : alpha_(alpha) {}

  /// True for the roles that have a curriculum.
  static bool applies(data::Role role) {
    return role == data::Role::chosen || role == data::Role::rejected;
  }

  void begin(const data::RoleCounts& counts);

  /// Alpha [rows] of a micro-batch's supervised rows, the same within an answer.
  Tensor of_rows(Device& device, const data::MicroBatch& batch, const model::LabelLogProbs& seen);

  /// Sums what was seen since begin() over all ranks; the first such means become the reference.
  /// Collective over both axes.
  void finish(comm::Communicator& dp, comm::Communicator& pp);

  /// Mean alpha and gap of either side in the last finished step, without weight.
  std::vector<methods::StateTerm> terms() const;

  const std::optional<methods::distill::ReferenceGaps>& reference() const { return reference_; }
  /// Goes on with the reference of an earlier run.
  void restore(const methods::distill::ReferenceGaps& reference) { reference_ = reference; }

 private:
  struct Side {
    double alpha = 0, gap = 0;  // sums over answers
    double count = 1;           // of them, in the whole step
    double mean_gap() const { return gap / count; }
  };
  static std::size_t index(data::Role role) { return role == data::Role::chosen ? 0 : 1; }

  double alpha_;
  std::array<Side, 2> sides_;  // chosen, rejected
  std::optional<methods::distill::ReferenceGaps> reference_;
};

}  // namespace fathom::train
