#pragma once

#include "methods/distill/fdd.h"
#include "methods/key_layers.h"
#include "methods/state_loss.h"

namespace fathom::methods::distill {

struct FddSettings {
  std::vector<KeyLayer> layers;
  double trajectory_weight = 0, derivative_weight = 0;
  float temperature = 5;
  std::int64_t chunk_rows = 128;
};

/// Feature dynamics distillation as a loss on hidden states: one site, at the heads, with the key
/// states of both models. Both terms are means over the step's tokens, prompts included, and over
/// the key layers (trajectory) or their consecutive pairs (derivative). Text of the second corpus
/// is left out.
class FddLoss : public StateLoss {
 public:
  /// `dp` must outlive the loss.
  FddLoss(comm::Communicator& dp, FddSettings settings);

  std::vector<Site> sites() const override;
  void begin(const std::vector<data::MicroBatch>& batches) override;
  void apply(autograd::Tape* tape, int slot, std::size_t site, const KeyStates& states,
             model::Readback& later) override;
  std::vector<StateTerm> terms() const override;

 private:
  double pairs() const { return static_cast<double>(settings_.layers.size()) - 1; }

  comm::Communicator& dp_;
  FddSettings settings_;
  std::vector<bool> counts_;  // by slot: whether its tokens do
  double tokens_ = 0;         // of the whole step
  FddSums sums_;
};

}  // namespace fathom::methods::distill
