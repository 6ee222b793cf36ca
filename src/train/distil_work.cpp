#include "train/distil_work.h"

#include <algorithm>

namespace fathom::train {

using autograd::Tape;
using autograd::Var;

std::int64_t default_chunk_rows(std::int64_t vocab, int models) {
  constexpr std::int64_t kMostBytes = std::int64_t{72} << 20;
  return std::clamp<std::int64_t>(kMostBytes / (4 * vocab * models) / 16 * 16, 64, 1024);
}

DistilWork::DistilWork(model::Stage& student, model::Stage* teacher, const Settings& settings)
    : student_(student), teacher_(teacher), settings_(settings) {}

std::vector<pipeline::BundlePart> DistilWork::bundle_parts(bool trained_before) const {
  std::vector<pipeline::BundlePart> parts;
  if (teacher_ != nullptr) parts.push_back({teacher_->spec().hidden, false});
  parts.push_back({student_.spec().hidden, trained_before});
  return parts;
}

void DistilWork::begin(std::vector<data::MicroBatch> batches, std::int64_t global_label_tokens,
                       std::uint32_t step) {
  batches_ = std::move(batches);
  rows_.clear();
  label_tokens_ = global_label_tokens;
  step_ = step;
  sums_ = {};
  saved_bytes_.clear();
}

const DeviceRows& DistilWork::rows(int slot) {
  auto found = rows_.find(slot);
  if (found == rows_.end())
    found = rows_.emplace(slot, upload(student_.device(), batch(slot))).first;
  return found->second;
}

model::Pass DistilWork::pass(Tape* tape, int slot) {
  model::Pass pass;
  pass.tape = tape;
  pass.rows = rows(slot).tokens;
  pass.dropout = {.embedding = static_cast<float>(settings_.dropout.embedding),
                  .residual = static_cast<float>(settings_.dropout.residual),
                  .attention = static_cast<float>(settings_.dropout.attention),
                  .seed = settings_.seed,
                  .step = step_};
  pass.recompute = settings_.recompute == Recompute::block;
  if (tap)
    pass.tap = [this, slot](std::int64_t layer, const Var& states) { tap(slot, layer, states); };
  // Gradients are final with the last micro-batch that has tokens; empty ones run nothing.
  const bool last = std::all_of(batches_.begin() + slot + 1, batches_.end(),
                                [](const data::MicroBatch& later) { return later.empty(); });
  if (last) pass.bucket_done = bucket_done;
  return pass;
}

pipeline::Bundle DistilWork::forward(Tape* tape, int slot, const pipeline::Bundle& in) {
  if (tape != nullptr) tape->set_remakes(settings_.recompute == Recompute::cheap);
  const model::Pass student_pass = pass(tape, slot);
  Var teacher_states, student_states;
  if (teacher_ != nullptr) {
    model::Pass teacher_pass;
    teacher_pass.rows = student_pass.rows;
    teacher_states = in.empty() ? teacher_->embed(teacher_pass) : in[0];
    teacher_states = teacher_->run_blocks(teacher_pass, teacher_states);
  }
  student_states = in.empty() ? student_.embed(student_pass) : in.back();
  student_states = student_.run_blocks(student_pass, student_states);
  if (student_.plan().has_head) {
    last_stage_loss(student_pass, slot, teacher_states, student_states);
    student_states = teacher_states = Var();
  }
  if (tape != nullptr)
    for (const auto& [name, bytes] : tape->saved_bytes())
      saved_bytes_[name] = std::max(saved_bytes_[name], bytes);
  if (student_.plan().has_head) return {};
  if (teacher_ == nullptr) return {student_states};
  return {teacher_states, student_states};
}

void DistilWork::last_stage_loss(const model::Pass& pass, int slot, const Var& teacher,
                                 const Var& student) {
  const DeviceRows& device_rows = rows(slot);
  if (device_rows.labels.elements() == 0)
    return;  // adds exactly nothing, and its states no gradient
  const auto supervised = [&](const model::Stage& stage, const model::Pass& p, const Var& states) {
    const bool all = device_rows.labels.elements() == states.value.rows();
    return stage.finish(p, all ? states : autograd::gather(p.tape, states, device_rows.label_rows));
  };
  const model::Shard& shard = student_.plan().shard;
  model::HeadLoss options;
  const double denominator = static_cast<double>(std::max<std::int64_t>(1, label_tokens_));
  const double t2 =
      settings_.loss.scale_t2 ? settings_.loss.temperature * settings_.loss.temperature : 1;
  options.loss = {.ce_weight = static_cast<float>(settings_.loss.ce_weight / denominator),
                  .kl_weight = static_cast<float>(settings_.loss.kl_weight * t2 / denominator),
                  .temperature = static_cast<float>(settings_.loss.temperature)};
  options.first_vocab = shard.first_vocab;
  options.vocab = shard.vocab;
  options.chunk_rows = settings_.loss.chunk_rows > 0
                           ? settings_.loss.chunk_rows
                           : default_chunk_rows(shard.vocab, teacher_ != nullptr ? 2 : 1);
  model::HeadInput teacher_input,
      student_input{supervised(student_, pass, student), &student_.head()};
  if (teacher_ != nullptr) {
    model::Pass inference;
    inference.rows = pass.rows;
    teacher_input = {supervised(*teacher_, inference, teacher), &teacher_->head()};
    options.vocab = std::min(options.vocab, teacher_->plan().shard.vocab);
  }
  sums_ += model::head_loss(pass.tape, student_.tp(), options, student_input, teacher_input,
                            device_rows.labels);
}

}  // namespace fathom::train
