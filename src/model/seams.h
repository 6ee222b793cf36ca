#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/operations.h"
#include "comm/communicator.h"
#include "model/parameters.h"
#include "model/shard.h"

// Where a method attaches to a stage: a linear layer's adapter, a control on a residual sum, and an
// edit of hidden states. The model knows these interfaces and no method.

namespace fathom::model {

class Stage;
struct Pass;
struct LinearWeights;
struct StagePlan;

/// Outputs [begin, begin + count) of a linear layer.
struct OutputRange {
  std::int64_t begin = 0, count = 0;
};

/// A published linear layer, of which this rank holds ranges of outputs (all of them if its inputs
/// are divided). Several may be fused into one matrix.
struct LinearPart {
  std::string module;               ///< "model.layers.3.self_attn.q_proj"
  std::int64_t outputs = 0;         ///< of the whole layer
  std::vector<OutputRange> ranges;  ///< on this rank, one behind the other
  Sharing sharing = Sharing::none;  ///< of what is divided by outputs
  bool owned = true;                ///< this rank counts its ranges
  std::int64_t first_column = 0;    ///< of the ranges in the fused output
  std::int64_t columns() const {
    std::int64_t sum = 0;
    for (const OutputRange& range : ranges) sum += range.count;
    return sum;
  }
};

/// A matrix of a block that an adapter may change. Divided by outputs over the tensor ranks, each
/// of which sees the whole input; or by inputs, and then each adds a partial sum to the output.
struct LinearSite {
  std::int64_t layer = 0;
  int index = 0;  ///< of the first part among the layer's linear layers, 0 to 6; keys dropout
  bool divides_outputs = true;
  std::int64_t inputs = 0;  ///< of the whole layer
  std::int64_t first_input = 0, inputs_here = 0;
  std::vector<LinearPart> parts;
  autograd::WeightLayout layout = autograd::WeightLayout::out_in;
  const LinearWeights* weights = nullptr;  ///< values exist once the stage is built
};

/// What an adapter does to one matrix.
class LinearAdapter {
 public:
  virtual ~LinearAdapter() = default;

  /// Changes y = W x (no bias yet) in place and returns the Var that follows it. Where inputs are
  /// divided, y and the change are partial sums. Neither collective nor dependent on other rows.
  virtual autograd::Var apply(const Pass& pass, autograd::Tape* tape, const autograd::Var& x,
                              const autograd::Var& y) const = 0;
};

/// The two places within a block where something is added to the residual stream.
enum class BlockSite { attention, mlp };

/// A control of one site, or of a whole block: x + f(x) + control(x).
class ResidualControl {
 public:
  virtual ~ResidualControl() = default;

  /// Adds the control of `state` [n, hidden], the residual stream that enters the site, to `sum` in
  /// place or anew, and returns the Var that follows it. Both are whole and equal on every tensor
  /// rank, and so must be what is added. Blocks with norms behind the residual sum hand in the
  /// normed sum.
  virtual autograd::Var apply(const Pass& pass, autograd::Tape* tape, const autograd::Var& state,
                              const autograd::Var& sum) const = 0;
};

/// A change of the hidden states behind a block.
class StateEdit {
 public:
  virtual ~StateEdit() = default;

  /// Changes `states` [n, hidden] in place and returns the Var that follows; whole and equal on
  /// every tensor rank.
  virtual autograd::Var apply(const Pass& pass, autograd::Tape* tape,
                              const autograd::Var& states) const = 0;
};

/// What a method keeps of one micro-batch while it runs through a stage, replays of blocks
/// included; or of all sequences that a decoder runs.
struct PassState {
  virtual ~PassState() = default;
};

/// A tensor [1, width] that travels with a micro-batch from stage to stage, beside its states.
struct CarriedRow {
  std::int64_t width = 0;
  bool gradient = false;
};

/// A part of the loss and its value in a step: weight * sum / count. The sum is of this rank's
/// micro-batches; count is the global denominator, known before the first forward pass.
struct LossTerm {
  std::string name;
  double weight = 0;
  double sum = 0;
  double count = 0;
};

/// What a method adds to one stage. While the stage is built it declares parameters, in the order
/// of the forward pass; it must outlive the stage's parameters.
class StageExtension {
 public:
  virtual ~StageExtension() = default;

  /// Called first. tp may be null.
  virtual void begin(Device& device, const StagePlan& plan, comm::Communicator* tp,
                     ParameterSet& parameters) = 0;
  /// Null where the method leaves the site alone.
  virtual std::unique_ptr<LinearAdapter> adapt(const LinearSite&, ParameterSet&) { return nullptr; }
  virtual std::unique_ptr<ResidualControl> control(std::int64_t /*layer*/, BlockSite,
                                                   ParameterSet&) {
    return nullptr;
  }
  virtual std::unique_ptr<ResidualControl> block_control(std::int64_t /*layer*/, ParameterSet&) {
    return nullptr;
  }
  virtual std::unique_ptr<StateEdit> edit(std::int64_t /*layer*/, ParameterSet&) { return nullptr; }
  /// Called last: the stage's blocks can be run from now on. It outlives the extension's work.
  virtual void built(const Stage&) {}
  /// Whether a block's parameters get gradients outside its own backward pass: they are final only
  /// when the stage's is.
  virtual bool crosses_layers() const { return false; }

  /// Sets what starts from the model's own weights, once these are loaded for a new run. Collective
  /// over the tensor group.
  virtual void initialise() {}
  /// Called whenever weights have been loaded or updated, before the next pass. Collective over the
  /// stages and the tensor ranks of a replica.
  virtual void weights_changed() {}

  /// Whether replicas exchange something within each forward and backward pass. Each pass then gets
  /// a gradient, if only zeros.
  virtual bool meets() const { return false; }

  /// A step begins, with so many supervised micro-batches over all ranks.
  virtual void begin_step(std::int64_t /*micro_batches*/) {}
  /// What each stage hands to the next one in training; the same on all of them.
  virtual std::vector<CarriedRow> carried() const { return {}; }
  /// Before a micro-batch runs through the stage: what becomes Pass::state. `received` are the rows
  /// of the stage before, none on the first one and in evaluation.
  virtual std::shared_ptr<PassState> begin_pass(const Pass&,
                                                const std::vector<autograd::Var>& /*received*/) {
    return nullptr;
  }
  /// After it has run in training: the rows for the next stage. On the last one, where there are
  /// none, a loss on them puts its gradient into their slots, unless nothing of the micro-batch is
  /// supervised.
  virtual std::vector<autograd::Var> end_pass(const Pass&, bool /*supervised*/) { return {}; }
  /// The backward passes of a step are done; gradients are not yet summed over replicas. Collective
  /// over the stages.
  virtual void finish_gradients() {}
  /// The terms since begin_step(), each on the rank that computed it; the same list everywhere.
  virtual std::vector<LossTerm> terms() const { return {}; }
  /// The Pass::state of everything that one decoder runs.
  virtual std::shared_ptr<PassState> begin_decoding() { return nullptr; }
};

}  // namespace fathom::model
