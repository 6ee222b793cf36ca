#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "comm/stop_vote.h"
#include "core/log.h"
#include "core/memory_usage.h"
#include "core/timer.h"
#include "kernels/peak.h"
#include "train/evaluation.h"
#include "train/lr_schedule.h"
#include "train/metrics/format.h"
#include "train/moc_report.h"
#include "train/mode_report.h"
#include "train/model_identity.h"
#include "train/operation_counts.h"
#include "train/shared_tokenizer.h"
#include "train/state_losses.h"
#include "train/trained.h"
#include "train/tuning_warnings.h"

namespace fathom::train {
namespace {

// The lock of the run's folder, which must not be one of its own checkpoints.
std::unique_ptr<checkpoints::RunLock> lock_run(const std::filesystem::path& folder) {
  require(!std::filesystem::exists(folder / checkpoints::kManifestName), ErrorKind::config,
          "run.dir = ", folder.string(), " is a checkpoint; name the folder of its run, ",
          std::filesystem::absolute(folder / "").parent_path().parent_path().string());
  auto lock = std::make_unique<checkpoints::RunLock>(folder);
  if (!lock->previous().empty())
    log_info("the last run in ", folder.string(), " was broken off: ", lock->previous());
  return lock;
}

}  // namespace

Trainer::Trainer(Device& device, comm::ProcessGrid& grid, const TrainConfig& config,
                 const EnginePlan& plan, TrainerHooks hooks)
    : config_(config),
      hooks_(std::move(hooks)),
      grid_(grid),
      device_(device),
      lock_(may_write() ? lock_run(config.run.dir) : nullptr),
      spans_(config.mta.enabled ? std::make_unique<SpanFeed>(grid, config.spans) : nullptr),
      engine_(device, grid, config, plan, true,
              make_state_losses(device, grid, config, plan,
                                [this](const std::vector<data::MicroBatch>& batches) {
                                  return spans_->take(batches);
                                })),
      faults_(config.faults, grid.world().rank()),
      shrink_(config.mode.shrink),
      writer_(config.run.dir, {.last = config.run.keep},
              [this](std::string_view stage) { faults_.reached(saved_step_, stage); }) {
  const bool first = grid.world().rank() == 0;
  if (first) require_shared_tokenizer(config_);
  data_ = open_data(config_, plan, first);
  if (spans_) spans_->open(data_.train->shared_file(), tokenizer_folder(config_));
  std::function<void(const data::MicroBatch&)> written;
  if (spans_) written = [this](const data::MicroBatch& text) { spans_->prefetch({text}); };
  source_ = make_source(
      config_, engine_, data_, [this] { note("generate", steps_done_ + 1); }, std::move(written));
  if (data_.eval)
    eval_batches_ = std::make_unique<data::EvalBatches>(
        *data_.eval, config_.batch.micro_batch,
        std::int64_t{config_.run.eval_batches} * config_.batch.micro_batch);
  if (!config_.teacher.path.empty())
    teacher_ = grid.world().broadcast_text(first ? model_fingerprint(config_.teacher.path) : "", 0);
  resume_or_start();
  if (may_write()) sinks_ = std::make_unique<MetricSinks>(config_.run, config_.log, resumed_);
  peak_flops_ = kernels::measure_gemm_peak_gflops(device_) * 1e9;
  grid_.world().all_reduce(&peak_flops_, 1, comm::ReduceOp::sum);
  log_start();
}

// In the run's folder.
bool Trainer::may_write() const {
  return grid_.world().rank() == 0 && !hooks_.look;
}

void Trainer::resume_or_start() {
  note("load", 0);
  comm::Communicator& world = grid_.world();
  if (may_write()) {
    const checkpoints::Leftovers left = checkpoints::remove_leftovers(config_.run.dir);
    for (const std::string& name : left.restored)
      log_info("brought ", name, " back, which an interrupted save had moved aside");
    for (const std::string& name : left.removed)
      log_info("removed ", name, ", left by an interrupted save");
  }
  checkpoints::OpenOptions options = {.allow_fallback = config_.run.resume_fallback,
                                      .verify = true};
  options.warn = [&](const std::string& text) {
    if (world.rank() == 0) log_warn(text);
  };
  auto reader = open_checkpoint(options);
  // Damage within a file shows when it is read, on the ranks that need it.
  for (std::string damage; reader; reader = open_checkpoint(options)) {
    damage = resume_from(*reader);
    if (damage.empty()) break;
    require(options.allow_fallback, ErrorKind::io, damage,
            "; run.resume_fallback=true goes on from an earlier checkpoint");
    options.before = reader->manifest().run.step;
    options.warn(str("passing over ", reader->folder().filename().string(), ": ", damage));
  }
  if (reader) return settle_on(*reader);
  engine_.load_initial_weights();
  if (may_write()) keep_tokenizer();
}

std::optional<checkpoints::CheckpointReader> Trainer::open_checkpoint(
    const checkpoints::OpenOptions& options) {
  auto reader = checkpoints::CheckpointReader::open_latest(grid_.world(), config_.run.dir, options);
  const bool passed_over = options.before < checkpoints::OpenOptions().before;
  require(reader || !passed_over, ErrorKind::io, config_.run.dir,
          ": no sound checkpoint is left; choose another folder to start anew");
  const Resume resume = config_.run.resume;
  require(reader.has_value() || resume != Resume::must, ErrorKind::io, config_.run.dir,
          ": run.resume = must, but there is no checkpoint");
  require(!reader || resume != Resume::never, ErrorKind::config, config_.run.dir,
          ": run.resume = never, but there is ", reader ? reader->folder().string() : "",
          "; choose another folder");
  return reader;
}

// Sets everything from a checkpoint. Returns what is damaged in it, the same text on every rank.
std::string Trainer::resume_from(checkpoints::CheckpointReader& reader) {
  if (hooks_.check_resume) hooks_.check_resume(reader.manifest().run.config);
  const std::string origin = reader.folder().string();
  const RunState state =
      parse_run_state(reader.manifest().run.state, (reader.folder() / "manifest.json").string());
  require_same_student(state, engine_.plan().student, origin);
  require_same_teacher(state, teacher_, config_, origin);
  if (!config_.run.accept_changes) require_same_adapter(state, engine_.plan(), origin);
  data_start_ = continued_data(state);
  restore_depth(state, origin);
  require_all_wanted(engine_, reader);
  shrink_.set_steps_below(state.mode_steps_below);
  std::string damage;
  try {
    // What a method learnt from other data starts anew with the data.
    if (state.data == source_->identity()) {
      source_->restore(read_method_state(reader, state.method), origin);
      if (engine_.row_alpha() && state.gaps) engine_.row_alpha()->restore(*state.gaps);
    }
    restore(engine_, reader, !config_.run.reset_optimizer);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::io) throw;
    damage = error.what();
  }
  const auto damages = grid_.world().all_gather_text(damage);
  damage.clear();
  for (std::size_t rank = 0; rank < damages.size(); ++rank)
    if (!damages[rank].empty())
      damage += str(damage.empty() ? "" : "; ", "rank ", rank, ": ", damages[rank]);
  engine_.optimizer().set_steps(config_.run.reset_optimizer ? 0 : state.optimizer_steps);
  steps_done_ = saved_step_ = state.step;
  resumed_ = state.step;
  evaluation_due_ = state.evaluation_due && !config_.data.eval.empty();
  return damage;
}

// Late layers that lost their vote before the checkpoint have none to read from it, and others
// than those that it began with never had one.
void Trainer::restore_depth(const RunState& state, const std::string& origin) {
  require(state.mode.empty() || engine_.plan().mode, ErrorKind::config, origin,
          ": late layers of this run vote, and would be dropped: mode.enabled = true");
  if (state.mode.empty()) return;
  const int k = methods::mode::parse_mode(state.mode, origin).k, asked = config_.mode.spec.k;
  require(k <= asked, ErrorKind::config, origin, ": ", k,
          " late layers vote here, and mode.k = ", asked, "; ask for ", k);
  require(state.mode_k == 0 || asked <= state.mode_k, ErrorKind::config, origin,
          ": this run began with ", state.mode_k, " late layers, and mode.k = ", asked,
          ": the others have nothing to read here; ask for ", state.mode_k,
          ", or export the model and start anew from it");
  if (k != engine_.plan().mode->k) engine_.keep_late_layers(k);
}

void Trainer::settle_on(const checkpoints::CheckpointReader& reader) {
  engine_.load_teacher();
  engine_.weights_changed();
  if (config_.run.resume_fallback && may_write())
    for (const std::string& name : checkpoints::set_aside_after(config_.run.dir, steps_done_))
      log_warn("set aside as ", name);
  log_info("resumed from ", reader.folder().string(), " (saved by ", reader.manifest().run.grid,
           ")");
}

// Where the training data began. Other data than before starts anew, if it may; later resumes of
// the same recipe then find it unchanged.
std::int64_t Trainer::continued_data(const RunState& saved) const {
  if (saved.data == source_->identity()) return saved.data_start;
  if (!config_.run.reset_data) data::require_same_data(saved.data, source_->identity());
  return saved.step;
}

// An export should load on its own, so the tokenizer of the model stays with the run.
void Trainer::keep_tokenizer() {
  const std::filesystem::path source = tokenizer_folder(config_);
  const std::filesystem::path target = std::filesystem::path(config_.run.dir) / "tokenizer";
  std::filesystem::create_directories(target);
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "merges.txt",
        "special_tokens_map.json", "generation_config.json", "chat_template.jinja"}) {
    const std::filesystem::path file = source / name;
    if (std::filesystem::exists(file))
      std::filesystem::copy_file(file, target / name,
                                 std::filesystem::copy_options::overwrite_existing);
  }
}

void Trainer::log_start() {
  const EnginePlan& plan = engine_.plan();
  if (grid_.world().rank() == 0) warn_of_idle_parameters(plan, *data_.train);
  log_info("student: ", model::to_string(plan.student.family), ", ", plan.student.layers,
           " layers, ", plan.student.parameters(), " parameters, stages ",
           pipeline::to_string(plan.student_layers));
  if (plan.teacher)
    log_info("teacher: ", model::to_string(plan.teacher->family), ", ", plan.teacher->layers,
             " layers, ", plan.teacher->parameters(), " parameters in ",
             to_string(config_.teacher.dtype), ", stages ",
             pipeline::to_string(*plan.teacher_layers));
  const TrainedCount count = count_trained(engine_);
  log_info("trained: ", count.trained, " of ", count.all, " parameters");
  if (plan.mode) log_info(mode_parameters(plan));
  const data::DatasetReport& report = data_.train->report();
  log_info("data: ", report.kept, " of ", report.records, " records, longest ", report.longest,
           " tokens, ", report.truncated, " truncated, ", report.skipped + report.unlabelled,
           " left out");
  log_info("grid: ", comm::to_string(grid_.shape()), "; measured GEMM peak of all ranks ",
           static_cast<std::int64_t>(peak_flops_ / 1e9), " GFLOP/s");
}

// What the backward pass keeps, once: by operation, for the largest micro-batch of rank 0's stage.
void Trainer::log_saved_bytes() {
  std::ostringstream text;
  for (const auto& [operation, bytes] : engine_.work().saved_bytes())
    if (bytes > 0)
      text << "  " << operation << " " << format_bytes(static_cast<std::int64_t>(bytes));
  log_info("kept for the backward pass of a micro-batch:", text.str());
}

void Trainer::note(const char* action, std::int64_t step, int micro_batch) {
  if (hooks_.watchdog != nullptr)
    hooks_.watchdog->note({.step = step, .micro_batch = micro_batch, .name = action});
  faults_.reached(step, action);
}

// What all ranks must agree on in a step, in one reduction.
Trainer::StepVote Trainer::vote(bool finite) {
  std::int64_t values[] = {!finite, !unrecorded_.empty(), stop_signal(), memory_usage().peak};
  grid_.world().all_reduce(values, std::size(values), comm::ReduceOp::max);
  stop_signal_ = static_cast<int>(values[2]);
  return {.finite = values[0] == 0, .recorded = values[1] == 0, .memory = values[3]};
}

comm::Watchdog::Phase Trainer::watch(const char* phase, double seconds) {
  return {hooks_.watchdog, phase, comm::Watchdog::Seconds(seconds)};
}

void Trainer::require_finite(bool finite, double loss, double norm) {
  if (finite) return;
  // All ranks are here: the save that is under way is the last good one.
  finish_save(config_.run.save_errors);
  fail(ErrorKind::numeric, "step ", steps_done_ + 1, ": loss ", loss, ", gradient norm ", norm,
       "; nothing was updated. Lower optim.lr, or look for bad values in data and weights");
}

// This step's texts are parsed first, then what is known of the next one's, while the models run.
void Trainer::prepare_spans(const StepBatches& batches, StepClock clock) {
  spans_->prefetch(batches.slots);
  ++clock.step;
  ++clock.data;
  if (clock.step < clock.steps) spans_->prefetch(source_->upcoming(clock));
}

// The terms on hidden states, and what was seen while they were made.
void Trainer::add_terms(StepMetrics& metrics) {
  for (const methods::StateTerm& term : engine_.state_terms())
    (term.weight > 0 ? metrics.parts : metrics.more).push_back({term.name, value_of(term)});
  if (grid_.shape().pp > 1)
    metrics.more.push_back({"stage_bytes", static_cast<double>(engine_.take_stage_bytes())});
  if (!spans_) return;
  data::spans::SpanCounts counts = spans_->take_counts();
  grid_.dp().all_reduce(&counts.beyond_cut, 1, comm::ReduceOp::sum);
  double seconds[2] = {counts.exposed_seconds, counts.parsing_seconds};
  grid_.world().all_reduce(seconds, 2, comm::ReduceOp::max);
  metrics.more.push_back({"spans_exposed_s", seconds[0]});
  metrics.more.push_back({"spans_parsing_s", seconds[1]});
  metrics.more.push_back({"spans_beyond_cut", static_cast<double>(counts.beyond_cut)});
}

// The earliest late layer's vote goes, for the steps to come, when its weight was small for long.
void Trainer::shrink_depth(StepMetrics& metrics) {
  if (!config_.mode.shrink.enabled()) return;
  const int k = engine_.plan().mode->k;
  const std::int64_t earliest = engine_.plan().student.layers - k + 1;
  const std::string name = str("mode_weight_", earliest);
  double weight = 0;
  for (const methods::StateTerm& term : engine_.state_terms())
    if (term.name == name) weight = value_of(term);
  metrics.more.push_back({"mode_k", static_cast<double>(k)});
  std::int64_t goes = shrink_.observe(weight, k);
  grid_.world().all_reduce(&goes, 1, comm::ReduceOp::max);
  if (goes == 0) return;
  engine_.keep_late_layers(k - 1);
  log_info("layer ", earliest, " votes no longer: its mean weight, ", weight, " now, was below ",
           config_.mode.shrink.below, " for ", config_.mode.shrink.steps, " steps; mode.k is ",
           k - 1);
}

// Of mixture of control, received by this rank so far.
std::int64_t Trainer::bank_bytes() {
  return engine_.moc() != nullptr ? engine_.moc()->bytes_received() : 0;
}

StepMetrics Trainer::step() {
  const Timer timer;
  const std::int64_t index = steps_done_;
  note("batches", index + 1);
  const StepClock clock{.step = index, .steps = config_.run.steps, .data = index - data_start_};
  StepBatches batches = source_->take(clock);
  if (spans_) prepare_spans(batches, clock);
  const data::BatchCounts work = batches.counts.total();
  const std::int64_t bank_before = bank_bytes();
  const auto observer = [&](const pipeline::Action& action) {
    note(pipeline::to_string(action.kind), index + 1, action.micro_batch);
  };
  const model::LossSums sums =
      engine_.forward_backward(std::move(batches.slots), batches.counts, index, observer);
  note("update", index + 1);
  StepMetrics metrics;
  metrics.loss = engine_.objective(sums);
  metrics.parts = loss_parts(config_, engine_.role_sums());
  metrics.more = std::move(batches.report);
  add_terms(metrics);
  if (faults_.poisons(index + 1)) metrics.loss = std::numeric_limits<double>::quiet_NaN();
  metrics.grad_norm = engine_.optimizer().gradient_norm(grid_);
  const StepVote agreed = vote(std::isfinite(metrics.loss) && std::isfinite(metrics.grad_norm));
  require_finite(agreed.finite, metrics.loss, metrics.grad_norm);
  if (!agreed.recorded) require_recorded();
  metrics.lr = config_.optim.lr * lr_factor(config_.schedule, index, config_.run.steps);
  engine_.update(metrics.lr, clip_factor(metrics.grad_norm, config_.optim.clip));
  add_routing(engine_, bank_bytes() - bank_before, metrics);
  metrics.remark = std::move(batches.remark);
  shrink_depth(metrics);
  metrics.step = ++steps_done_;
  metrics.steps = config_.run.steps;
  metrics.tokens = work.tokens;
  metrics.seconds = timer.seconds();
  metrics.tokens_per_s = static_cast<double>(work.tokens) / metrics.seconds;
  const double flops =
      step_flops(engine_.plan(), config_, work.tokens, work.label_tokens, work.squares);
  metrics.peak_share = flops / metrics.seconds / peak_flops_;
  metrics.memory_bytes = agreed.memory;
  return metrics;
}

EvalMetrics Trainer::evaluate() {
  FATHOM_CHECK(eval_batches_ != nullptr, "there is no evaluation set");
  const auto phase = watch("evaluate", config_.run.watchdog_eval_seconds);
  note("evaluate", steps_done_);
  const Timer timer;
  const eval::TokenMetrics totals = train::evaluate(
      engine_, *eval_batches_, [&](const pipeline::Action&) { note("evaluate", steps_done_); });
  return EvalMetrics{.step = steps_done_,
                     .loss = totals.loss(),
                     .perplexity = totals.perplexity(),
                     .accuracy = totals.accuracy(),
                     .tokens = totals.tokens,
                     .seconds = timer.seconds()};
}

void Trainer::evaluate_if_due() {
  if (!evaluation_due_) return;
  const EvalMetrics metrics = evaluate();
  source_->evaluated(metrics.loss);
  record([&] { sinks_->evaluation(metrics); });
  evaluation_due_ = false;
}

// Metrics are rank 0's alone. If it fails, all ranks hear of it together, in the next vote: one
// that died alone would leave the others to guess.
template <typename Write>
void Trainer::record(Write write) {
  if (!sinks_ || !unrecorded_.empty()) return;
  try {
    write();
  } catch (const Error& error) {
    unrecorded_ = error.what();
  }
}

// Collective.
void Trainer::require_recorded() {
  const std::string problem = grid_.world().broadcast_text(unrecorded_, 0);
  if (problem.empty()) return;
  finish_save(config_.run.save_errors);
  fail(ErrorKind::io, problem);
}

RunEnd Trainer::run() {
  const RunEnd end = train_on();
  require_recorded();
  note("finalize", steps_done_);
  if (faults_.pending())
    log_warn("the fault that [faults] asks for has not happened: step ", config_.faults.step,
             config_.faults.action.empty() ? "" : " at " + config_.faults.action);
  return end;
}

RunEnd Trainer::train_on() {
  const RunConfig& run = config_.run;
  if (steps_done_ >= run.steps)
    log_info("the run is complete: ", steps_done_, " of ", run.steps, " steps are done");
  if (eval_batches_ && !resumed_) evaluation_due_ = true;
  try {
    comm::stop_if_asked(grid_.world());
    evaluate_if_due();
    watch_tokens(engine_);
    while (steps_done_ < run.steps) advance();
  } catch (const Stopped& asked) {
    return stop(asked.signal);
  }
  save_at_last();
  return RunEnd::complete;
}

// One step with what follows it. Throws Stopped as soon as what is done can be saved as it is.
void Trainer::advance() {
  const RunConfig& run = config_.run;
  const StepMetrics metrics = step();
  if (std::exchange(first_step_, false)) {
    log_saved_bytes();
    warn_of_large_tokens(engine_);
  }
  record([&] { sinks_->step(metrics); });
  finish_save(run.save_errors, false);
  const bool last = steps_done_ == run.steps;
  const auto due = [&](int every) { return last || (every > 0 && steps_done_ % every == 0); };
  evaluation_due_ = eval_batches_ && due(run.eval_every);
  if (stop_signal_ != 0) throw Stopped{stop_signal_};
  evaluate_if_due();
  if (due(run.save_every)) begin_save(run.save_errors);
}

RunEnd Trainer::stop(int signal) {
  save_at_last();
  if (steps_done_ >= config_.run.steps && !evaluation_due_) return RunEnd::complete;
  log_info("stopped by ", stop_signal_name(signal), " after step ", steps_done_, " of ",
           config_.run.steps, "; the same command goes on from here");
  return RunEnd::stopped;
}

}  // namespace fathom::train
