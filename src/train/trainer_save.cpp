// How a trainer saves; the rest of it is in trainer.cpp.

#include <cstdio>

#include "core/log.h"
#include "core/timer.h"
#include "methods/moc/spec_json.h"
#include "train/trainer.h"

namespace fathom::train {
namespace {

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", seconds);
  return text;
}

}  // namespace

// A part of a save. It fails on all ranks or on none, so that all of them can go on without it.
template <typename Work>
void Trainer::saving(SaveErrors on_failure, Work work) {
  const auto phase = watch("save", config_.run.watchdog_save_seconds);
  note("save", saved_step_);
  try {
    work();
  } catch (const Error& error) {
    if (on_failure == SaveErrors::end || error.kind() != ErrorKind::io) throw;
    saved_step_ = kNotSaved;
    if (grid_.world().rank() == 0) log_warn(error.what(), "; the next save tries again");
  }
}

void Trainer::begin_save(SaveErrors on_failure) {
  finish_save(on_failure);
  saved_step_ = steps_done_;
  saving(on_failure, [&] {
    const Timer timer;
    checkpoints::Snapshot saved = snapshot(engine_, true);
    checkpoints::RunInfo info = describe_run(saved);
    const std::string hint = writer_.begin(grid_.world(), std::move(info), std::move(saved));
    if (!hint.empty()) log_warn(hint);
    save_wait_ = timer.seconds();
  });
}

// What a checkpoint says of the run. What a method knows besides parameters goes with the tensors.
checkpoints::RunInfo Trainer::describe_run(checkpoints::Snapshot& saved) {
  RunState state;
  state.step = steps_done_;
  state.optimizer_steps = engine_.optimizer().steps();
  state.data = source_->identity();
  state.data_start = data_start_;
  state.evaluation_due = evaluation_due_;
  state.loss_on_prompt = config_.loss.on_prompt;
  state.model_config = model::config_json(engine_.plan().student);
  state.teacher = teacher_;
  state.adapter = adapter_json(engine_.plan(), config_.model.path);
  if (engine_.plan().mode) state.mode = methods::mode::to_json(*engine_.plan().mode);
  if (engine_.plan().mode) state.mode_k = config_.mode.spec.k;
  state.mode_steps_below = shrink_.steps_below();
  if (engine_.plan().moc.enabled) state.moc = methods::moc::to_json(engine_.plan().moc);
  if (engine_.row_alpha()) state.gaps = engine_.row_alpha()->reference();
  const MethodState method = source_->state();
  state.method = method.values;
  if (grid_.world().rank() == 0) append(method, saved);
  return {.step = steps_done_,
          .state = to_json(state),
          .config = hooks_.config_text,
          .grid = comm::to_string(grid_.shape()),
          .program = hooks_.program};
}

// Waits for the save under way, if there is one; without `wait` it is left alone unless all ranks
// have written.
void Trainer::finish_save(SaveErrors on_failure, bool wait) {
  if (!writer_.pending()) return;
  saving(on_failure, [&] {
    const Timer timer;
    const auto saved = wait ? writer_.finish(grid_.world()) : writer_.try_finish(grid_.world());
    save_wait_ += timer.seconds();
    if (saved) report_save(*saved);
  });
}

// The state that the next run goes on from. No later step could try again, so this one does, once.
void Trainer::save_at_last() {
  for (const SaveErrors on_failure : {SaveErrors::retry, SaveErrors::end}) {
    finish_save(on_failure);
    if (saved_step_ != steps_done_) begin_save(on_failure);
    finish_save(on_failure);
  }
}

void Trainer::report_save(const checkpoints::SaveResult& result) {
  log_info("saved ", result.folder.string(), " (", result.bytes >> 20, " MiB in ",
           seconds_text(result.seconds), ", of which training waited ", seconds_text(save_wait_),
           ")");
  if (grid_.world().rank() == 0)
    for (const std::string& warning : result.warnings) log_warn(warning);
}

}  // namespace fathom::train
