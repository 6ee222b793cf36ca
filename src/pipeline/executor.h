#pragma once

#include <functional>
#include <vector>

#include "autograd/tape.h"
#include "comm/communicator.h"
#include "pipeline/schedule.h"

namespace fathom::pipeline {

/// What crosses a stage boundary for one micro-batch: tensors [tokens, width], or of a fixed number
/// of rows, in an agreed order. Those with a slot get a gradient back.
using Bundle = std::vector<autograd::Var>;

/// One tensor of a bundle, agreed on before the run.
struct BundlePart {
  std::int64_t width = 0;
  bool gradient = false;
  std::int64_t fixed_rows = 0;  ///< 0: one for each token
  std::int64_t rows(std::int64_t tokens) const { return fixed_rows > 0 ? fixed_rows : tokens; }
};

/// The computation of one stage, as the executor sees it.
class StageWork {
 public:
  virtual ~StageWork() = default;

  /// Tokens of a micro-batch; one of zero tokens is skipped by every stage.
  virtual std::int64_t tokens(int micro_batch) const = 0;

  /// Runs the stage's forward pass. `in` is empty on the first stage. With a tape, gradients of the
  /// last stage's loss are put into slots here; the result is empty on the last stage.
  virtual Bundle forward(autograd::Tape* tape, int micro_batch, const Bundle& in) = 0;

  /// Called after the micro-batch's last action on this stage.
  virtual void finished(int /*micro_batch*/) {}
};

/// Told before each action: for the watchdog and for traces.
using ActionObserver = std::function<void(const Action&)>;

/// Runs schedules on this rank's stage, moving bundles forward and gradients back. Knows nothing of
/// what the tensors mean. All ranks of the pipeline group must run matching schedules.
class Executor {
 public:
  /// `parts` lists what this stage receives (empty on the first) and `out_parts` what it sends
  /// (empty on the last). The group and the device must outlive the executor.
  Executor(Device& device, comm::Communicator& pp, std::vector<BundlePart> in_parts,
           std::vector<BundlePart> out_parts);

  /// Runs one schedule to its end. `train` records tapes; without it only forward actions may
  /// occur.
  void run(const Schedule& schedule, StageWork& work, bool train,
           const ActionObserver& observer = {});

  /// Bytes that this stage has sent since it was made.
  std::size_t bytes_sent() const { return bytes_sent_; }

 private:
  struct InFlight;
  void execute(const Action& action, StageWork& work, InFlight& state, bool train);
  void receive_bundle(InFlight& state, int micro_batch, bool train);
  void send_bundle(InFlight& state, int micro_batch);
  void receive_gradients(InFlight& state, int micro_batch);
  void send_gradients(InFlight& state, int micro_batch);
  Tensor receive(std::int64_t tokens, const BundlePart& part, int peer, int tag);
  comm::Request send(const Tensor& tensor, int peer, int tag);

  Device& device_;
  comm::Communicator& pp_;
  std::vector<BundlePart> in_parts_, out_parts_;
  std::size_t bytes_sent_ = 0;
};

}  // namespace fathom::pipeline
