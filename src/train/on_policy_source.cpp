#include "train/on_policy_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "train/metrics/format.h"

namespace fathom::train {

using methods::distill::AnsweredPrompt;
using methods::distill::Origin;

namespace {

constexpr const char* kBuffer = "replay_buffer";

generate::GeneratorOptions generator_options(const DistillConfig& config, std::uint64_t seed,
                                             const methods::mode::LateVote* vote) {
  generate::GeneratorOptions options;
  options.sampling = {.temperature = config.temperature,
                      .top_k = config.top_k,
                      .top_p = config.top_p,
                      .no_repeat_ngram = config.no_repeat_ngram,
                      .seed = seed};
  options.max_new = config.max_new;
  options.batch = config.batch;
  options.vote = vote;
  return options;
}

// "own text 50%" and, with a threshold, "phi 0.20".
std::string remark(const std::vector<NamedValue>& report) {
  std::string text;
  for (const NamedValue& item : report) {
    if (item.name == "on_policy") text += "own text " + format_fixed(100 * item.value, 0) + "%";
    if (item.name == "phi") text += "  phi " + format_fixed(item.value, 2);
  }
  return text;
}

void append(data::MicroBatch& batch, const AnsweredPrompt& text, std::int64_t sample) {
  batch.role = data::Role::student_text;
  data::append(batch, {.ids = text.ids, .prompt_length = text.prompt_length}, sample, text.record);
}

}  // namespace

OnPolicySource::OnPolicySource(const data::Dataset& dataset, const data::BatchPlan& plan,
                               std::uint64_t seed, const DistillConfig& config,
                               const model::Stage& student, comm::ProcessGrid& grid,
                               const methods::mode::LateVote* vote)
    : batches_(dataset, plan, seed),
      seed_(seed),
      config_(config),
      grid_(grid),
      writer_(dataset, generator_options(config, seed, vote), student, grid) {
  if (config.method != DistillMethod::adaptive) return;
  threshold_.emplace(methods::distill::Threshold::Options{.initial = config.init_threshold,
                                                          .tolerance = config.epsilon});
  buffer_.emplace(static_cast<std::size_t>(config.capacity));
}

void OnPolicySource::set_observers(std::function<void()> progress,
                                   std::function<void(const data::MicroBatch&)> written) {
  writer_.progress = std::move(progress);
  writer_.answered = {};
  if (!written) return;
  writer_.answered = [this, written = std::move(written)](const AnsweredPrompt& text) {
    if (!mine(micro_batch_of(text))) return;
    data::MicroBatch batch;
    append(batch, text, text.sample);
    written(batch);
  };
}

// Whether a micro-batch of the step is this replica's.
bool OnPolicySource::mine(std::int64_t j) const {
  const data::Share share =
      data::share_of(batches_.plan().micro_batches, grid_.place().dp, grid_.shape().dp);
  return share.begin <= j && j < share.end;
}

std::int64_t OnPolicySource::micro_batch_of(const AnsweredPrompt& text) const {
  return (text.sample - first_sample_) / batches_.plan().micro_batch;
}

double OnPolicySource::threshold() const {
  return threshold_ ? threshold_->value() : config_.lambda;
}

std::vector<Origin> OnPolicySource::choose(const StepClock& clock) const {
  const double phi = threshold();
  // Without a buffer all own text is new.
  const double fresh =
      buffer_ ? methods::distill::fresh_share(config_.replay, phi, clock.step, clock.steps) : phi;
  std::vector<Origin> origins;
  for (std::int64_t j = 0; j < batches_.plan().micro_batches; ++j)
    origins.push_back(
        methods::distill::choose_origin(methods::distill::origin_draw(seed_, clock.step, j), phi,
                                        fresh, buffer_.has_value() && buffer_->full()));
  return origins;
}

std::vector<AnswerWriter::Sample> OnPolicySource::samples(const StepClock& clock,
                                                          std::int64_t j) const {
  std::vector<AnswerWriter::Sample> all;
  const std::int64_t first = batches_.plan().first_sample(clock.data, j);
  for (std::int64_t number = first; number < first + batches_.plan().micro_batch; ++number)
    all.push_back({number, batches_.record(number)});
  return all;
}

// Numbered as the samples in whose place they stand, so that no two of a step are alike.
void OnPolicySource::replay(const StepClock& clock, std::int64_t j, data::MicroBatch& batch) const {
  std::int64_t number = batches_.plan().first_sample(clock.data, j);
  const auto count = static_cast<std::size_t>(batches_.plan().micro_batch);
  for (const AnsweredPrompt* text : buffer_->draw(count, seed_, clock.step, j))
    append(batch, *text, number++);
}

// An evaluation in between may change the choices.
std::vector<data::MicroBatch> OnPolicySource::upcoming(const StepClock& clock) const {
  const std::vector<Origin> origins = choose(clock);
  return fill_slots(static_cast<std::int64_t>(origins.size()), grid_, [&](std::int64_t j) {
    const Origin origin = origins[static_cast<std::size_t>(j)];
    data::MicroBatch batch;
    if (origin == Origin::dataset) batch = batches_.micro_batch(clock.data, j);
    if (origin == Origin::replay) replay(clock, j, batch);
    return batch;
  });
}

StepBatches OnPolicySource::take(const StepClock& clock) {
  const std::vector<Origin> origins = choose(clock);
  const auto count = static_cast<std::int64_t>(origins.size());
  std::vector<data::MicroBatch> own(origins.size());
  std::vector<AnswerWriter::Sample> asked;
  for (std::int64_t j = 0; j < count; ++j) {
    const Origin origin = origins[static_cast<std::size_t>(j)];
    if (origin == Origin::replay) replay(clock, j, own[static_cast<std::size_t>(j)]);
    if (origin != Origin::generate) continue;
    const auto more = samples(clock, j);
    asked.insert(asked.end(), more.begin(), more.end());
  }
  first_sample_ = batches_.plan().first_sample(clock.data, 0);
  std::vector<AnsweredPrompt> answers = writer_.write(asked);
  for (const AnsweredPrompt& text : answers)
    append(own[static_cast<std::size_t>(micro_batch_of(text))], text, text.sample);
  StepBatches step;
  for (std::int64_t j = 0; j < count; ++j) {
    const auto at = static_cast<std::size_t>(j);
    if (origins[at] == Origin::dataset)
      step.counts[data::Role::dataset] += batches_.counts(clock.data, j);
    else
      step.counts[data::Role::student_text] += data::count(own[at]);
  }
  step.slots = fill_slots(count, grid_, [&](std::int64_t j) {
    const auto at = static_cast<std::size_t>(j);
    return origins[at] == Origin::dataset ? batches_.micro_batch(clock.data, j)
                                          : std::move(own[at]);
  });
  if (buffer_)
    for (AnsweredPrompt& text : answers) buffer_->push(std::move(text));
  step.report = report(origins);
  step.remark = remark(step.report);
  reported_ = writer_.totals();
  return step;
}

std::vector<NamedValue> OnPolicySource::report(const std::vector<Origin>& origins) const {
  const AnswerWriter::Totals& now = writer_.totals();
  const auto dataset = std::count(origins.begin(), origins.end(), Origin::dataset);
  const double own = static_cast<double>(origins.size()) - static_cast<double>(dataset);
  std::vector<NamedValue> values = {
      {"on_policy", own / static_cast<double>(origins.size())},
      {"generated_tokens", static_cast<double>(now.tokens - reported_.tokens)},
      {"generation_seconds", now.seconds - reported_.seconds},
      {"left_out", static_cast<double>(now.left_out - reported_.left_out)}};
  if (threshold_) values.push_back({"phi", threshold_->value()});
  if (buffer_) values.push_back({kBuffer, static_cast<double>(buffer_->size())});
  return values;
}

void OnPolicySource::evaluated(double loss) {
  if (threshold_) threshold_->evaluated(loss);
}

MethodState OnPolicySource::state() const {
  if (!threshold_) return {};
  const auto& threshold = threshold_->state();
  nlohmann::json values = {{"method", "adaptive"}, {"phi", threshold.value}};
  if (threshold.reference) values["reference_loss"] = *threshold.reference;
  return {.values = values.dump(), .arrays = {{kBuffer, buffer_->packed()}}};
}

void OnPolicySource::restore(const MethodState& state, const std::string& origin) {
  if (!threshold_) return;
  try {
    const auto values = nlohmann::json::parse(state.values);
    if (!values.contains("phi")) return;  // saved by another method: this one starts anew
    methods::distill::Threshold::State threshold{.value = values.at("phi")};
    if (values.contains("reference_loss")) threshold.reference = values.at("reference_loss");
    threshold_->restore(threshold);
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::io, origin,
         ": the state of distill.method = adaptive cannot be read: ", error.what());
  }
  const auto buffer = state.arrays.find(kBuffer);
  buffer_->restore(
      buffer == state.arrays.end() ? std::span<const std::int32_t>() : std::span(buffer->second),
      origin);
}

}  // namespace fathom::train
