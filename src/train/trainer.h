#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoints/checkpoint_writer.h"
#include "checkpoints/run_lock.h"
#include "comm/watchdog.h"
#include "data/dataset.h"
#include "train/engine.h"
#include "train/faults.h"
#include "train/make_source.h"
#include "train/metrics/metric_sinks.h"
#include "train/run_state.h"
#include "train/span_feed.h"

namespace fathom::train {

/// What a trainer needs from those who started it.
struct TrainerHooks {
  std::string program = "fathom";  ///< name and version, which a checkpoint stores too
  std::string config_text;         ///< the recipe that a checkpoint stores
  /// Compares the recipe stored in a checkpoint with this run's; throws Error(config) for a change
  /// that a resumed run may not make. Called on every rank.
  std::function<void(const std::string& stored)> check_resume;
  comm::Watchdog* watchdog = nullptr;
  bool look = false;  ///< for step() alone: nothing in the run's folder is written or removed
};

/// How a run came to its end.
enum class RunEnd {
  complete,  ///< all steps are done
  stopped,   ///< a signal asked for it, and what was done is saved (core/stop_signal.h)
};

/// A training run: data, engine, checkpoints, metrics. All calls are collective over the world.
class Trainer {
 public:
  /// Opens data and run folder, builds the models and sets their weights, from the newest
  /// checkpoint if the run goes on. Throws what any of these throw.
  Trainer(Device& device, comm::ProcessGrid& grid, const TrainConfig& config,
          const EnginePlan& plan, TrainerHooks hooks);

  /// Trains to run.steps; evaluates, saves and logs as the configuration says. When a signal asked
  /// any rank to stop, all of them stop after the step, the part of an evaluation, or a number of
  /// tokens of the text that they are in, and save; the run that goes on from there is the one that
  /// was never stopped. A save that fails ends the run with its Error(io): at once or, with
  /// run.save_errors = retry, if it is the last and fails twice. So do metrics that cannot be
  /// written.
  RunEnd run();

  /// One optimizer step. Throws Error(numeric) on every rank, before any update, when a loss or a
  /// gradient of any rank is not finite. Throws Stopped while it writes text; it is then as if the
  /// step had not begun.
  StepMetrics step();

  /// The evaluation set once, or its first eval_batches micro-batches. Throws Stopped.
  EvalMetrics evaluate();

  std::int64_t steps_done() const { return steps_done_; }
  Engine& engine() { return engine_; }

 private:
  void resume_or_start();
  std::optional<checkpoints::CheckpointReader> open_checkpoint(
      const checkpoints::OpenOptions& options);
  std::string resume_from(checkpoints::CheckpointReader& reader);
  void restore_depth(const RunState& state, const std::string& origin);
  void settle_on(const checkpoints::CheckpointReader& reader);
  bool may_write() const;
  void keep_tokenizer();
  void prepare_spans(const StepBatches& batches, StepClock clock);
  void add_terms(StepMetrics& metrics);
  void shrink_depth(StepMetrics& metrics);
  std::int64_t bank_bytes();
  void evaluate_if_due();
  template <typename Work>
  void saving(SaveErrors on_failure, Work work);
  void begin_save(SaveErrors on_failure);
  checkpoints::RunInfo describe_run(checkpoints::Snapshot& saved);
  void finish_save(SaveErrors on_failure, bool wait = true);
  void save_at_last();
  template <typename Write>
  void record(Write write);
  void require_recorded();
  void advance();
  RunEnd train_on();
  RunEnd stop(int signal);
  void report_save(const checkpoints::SaveResult& result);
  /// Tells the watchdog what comes next, and lets an injected fault happen there.
  comm::Watchdog::Phase watch(const char* phase, double seconds);
  void note(const char* action, std::int64_t step, int micro_batch = -1);
  void log_start();
  void log_saved_bytes();
  std::int64_t continued_data(const RunState& saved) const;
  struct StepVote {
    bool finite;
    bool recorded;
    std::int64_t memory;  ///< the largest peak of any rank, in bytes
  };
  StepVote vote(bool finite);
  void require_finite(bool finite, double loss, double norm);

  TrainConfig config_;
  TrainerHooks hooks_;
  comm::ProcessGrid& grid_;
  Device& device_;
  std::string teacher_;                         // its fingerprint; empty without one
  std::unique_ptr<checkpoints::RunLock> lock_;  // rank 0, unless it only looks
  RunData data_;
  std::unique_ptr<data::EvalBatches> eval_batches_;
  std::unique_ptr<SpanFeed> spans_;  // null unless a loss compares spans
  Engine engine_;
  FaultInjector faults_;
  std::unique_ptr<BatchSource> source_;
  methods::mode::ShrinkWatch shrink_;
  checkpoints::CheckpointWriter writer_;
  std::unique_ptr<MetricSinks> sinks_;  // rank 0, unless it only looks
  std::string unrecorded_;              // why metrics could not be written, until all know of it
  std::int64_t steps_done_ = 0;
  std::int64_t data_start_ = 0;  // the step that took sample 0 of the training set
  std::optional<std::int64_t> resumed_;
  // Of the newest save; nothing is lost before the first step. kNotSaved: it failed.
  static constexpr std::int64_t kNotSaved = -1;
  std::int64_t saved_step_ = 0;
  bool evaluation_due_ = false;
  bool first_step_ = true;
  int stop_signal_ = 0;    // agreed by all ranks in the last step; 0 to go on
  double save_wait_ = 0;   // seconds that training waited for the save under way
  double peak_flops_ = 0;  // of all ranks together, per second
};

}  // namespace fathom::train
