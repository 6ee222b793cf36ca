#include "train/distil_work.h"

#include <algorithm>

namespace fathom::train {

using autograd::Tape;
using autograd::Var;
using methods::KeyState;
using methods::KeyStates;
using methods::Side;

std::int64_t default_chunk_rows(std::int64_t vocab, int models) {
  constexpr std::int64_t kMostBytes = std::int64_t{48} << 20;
  return std::clamp<std::int64_t>(kMostBytes / (4 * vocab * models) / 16 * 16, 64, 1024);
}

DistilWork::DistilWork(model::Stage& student, model::Stage* teacher, int stage,
                       const Settings& settings, StateLosses states)
    : student_(student),
      teacher_(teacher),
      stage_(stage),
      settings_(settings),
      states_(std::move(states)) {}

std::vector<pipeline::BundlePart> DistilWork::bundle_parts(int stage, int first_trainable,
                                                           bool training) const {
  std::vector<pipeline::BundlePart> parts;
  if (teacher_ != nullptr) parts.push_back({teacher_->spec().hidden, false});
  parts.push_back({student_.spec().hidden, first_trainable <= stage});
  if (!training) return parts;
  for (const StateRoute& route : states_.routes.sent_by(stage)) {
    if (route.state.side == Side::teacher)
      parts.push_back({teacher_->spec().hidden, false});
    else
      parts.push_back({student_.spec().hidden, first_trainable <= route.made});
  }
  return parts;
}

void DistilWork::begin(std::vector<data::MicroBatch> batches, const data::RoleCounts& counts,
                       std::uint32_t step) {
  batches_ = std::move(batches);
  rows_.clear();
  counts_ = counts;
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

void DistilWork::keep(KeyState key, const Var& state, KeyStates& states) const {
  if (states_.routes.wanted(stage_, key)) states.put(key, state);
}

Var DistilWork::run_blocks(Side side, const model::Stage& model, model::Pass pass, const Var& in,
                           KeyStates& states) {
  // The last block's output is no key state before it has passed the final norm.
  const std::int64_t layers = model.spec().layers;
  if (!states_.losses.empty())
    pass.tap = [&, told = pass.tap](std::int64_t layer, const Var& state) {
      if (told) told(layer, state);
      if (layer < layers) keep({side, layer}, state, states);
    };
  if (in.defined()) keep({side, model.plan().first_layer}, in, states);
  return model.run_blocks(pass, in.defined() ? in : model.embed(pass));
}

void DistilWork::add_heads(const model::Pass& pass, KeyStates& states) const {
  if (!student_.plan().has_head) return;
  const model::Shard& shard = student_.plan().shard;
  const auto head = [&](const model::Stage& stage, const model::Pass& p) {
    return methods::KeyHead{
        .matrix = &stage.head(),
        .vocab =
            std::max<std::int64_t>(0, std::min(shard.vocab, settings_.vocab - shard.first_vocab)),
        .tp = stage.tp(),
        .project = [&stage, p](const Var& state) { return stage.project(p, state); }};
  };
  states.student_head = head(student_, pass);
  if (teacher_ != nullptr) states.teacher_head = head(*teacher_, {});
}

void DistilWork::apply_state_losses(Tape* tape, int slot, const KeyStates& states) {
  std::size_t first = 0;  // of the loss's sites in the list of all
  const std::vector<std::size_t> here = states_.routes.sites_on(stage_);
  for (methods::StateLoss* loss : states_.losses) {
    const std::size_t count = loss->sites().size();
    for (const std::size_t site : here)
      if (site >= first && site < first + count) loss->apply(tape, slot, site - first, states);
    first += count;
  }
}

pipeline::Bundle DistilWork::forward(Tape* tape, int slot, const pipeline::Bundle& in) {
  if (tape != nullptr) tape->set_remakes(settings_.recompute == Recompute::cheap);
  const model::Pass student_pass = pass(tape, slot);
  const std::size_t models = teacher_ != nullptr ? 2 : 1;
  const auto received = [&](std::size_t part) { return in.empty() ? Var() : in[part]; };
  KeyStates states;
  if (in.size() > models) {
    const auto travelled = states_.routes.sent_by(stage_ - 1);
    for (std::size_t i = 0; i < travelled.size(); ++i)
      states.put(travelled[i].state, in[models + i]);
  }
  Var teacher_states;
  if (teacher_ != nullptr) {
    model::Pass teacher_pass;
    teacher_pass.rows = student_pass.rows;
    teacher_states = run_blocks(Side::teacher, *teacher_, teacher_pass, received(0), states);
  }
  Var student_states =
      run_blocks(Side::student, student_, student_pass, received(models - 1), states);
  if (student_.plan().has_head) {
    last_stage_loss(student_pass, slot, teacher_states, student_states, states);
    student_states = teacher_states = Var();
  }
  if (tape != nullptr) {
    add_heads(student_pass, states);
    apply_state_losses(tape, slot, states);
  }
  if (tape != nullptr)
    for (const auto& [name, bytes] : tape->saved_bytes())
      saved_bytes_[name] = std::max(saved_bytes_[name], bytes);
  if (student_.plan().has_head) return {};
  pipeline::Bundle out;
  if (teacher_ != nullptr) out.push_back(teacher_states);
  out.push_back(student_states);
  if (tape != nullptr)
    for (const StateRoute& route : states_.routes.sent_by(stage_))
      out.push_back(states.at(route.state));
  return out;
}

void DistilWork::last_stage_loss(const model::Pass& pass, int slot, const Var& teacher,
                                 const Var& student, KeyStates& states) {
  const DeviceRows& device_rows = rows(slot);
  const std::int64_t labels = device_rows.labels.elements();
  // The norm goes row by row: all rows pass it only where a loss wants them all.
  const auto supervised = [&](Side side, const model::Stage& stage, const model::Pass& p, Var x) {
    const KeyState last{side, stage.spec().layers};
    const bool all = labels == x.value.rows(), key = states_.routes.wanted(stage_, last);
    const auto rows_of = [&](const Var& y) {
      return all ? y : autograd::gather(p.tape, y, device_rows.label_rows);
    };
    if (!key) return labels == 0 ? Var() : stage.finish(p, rows_of(x));
    x = stage.normalise(p, x);
    states.put(last, x);
    return labels == 0 ? Var() : stage.project(p, rows_of(x));
  };
  model::Pass inference;
  inference.rows = pass.rows;
  const Var student_rows = supervised(Side::student, student_, pass, student);
  const Var teacher_rows =
      teacher_ != nullptr ? supervised(Side::teacher, *teacher_, inference, teacher) : Var();
  if (labels == 0) return;  // adds exactly nothing, and its states no gradient
  const model::Shard& shard = student_.plan().shard;
  model::HeadLoss options;
  options.loss = token_loss(settings_.loss, counts_, batch(slot).role);
  options.row_weights = row_weights(student_.device(), settings_.loss, batch(slot));
  options.first_vocab = shard.first_vocab;
  options.vocab =
      std::max<std::int64_t>(0, std::min(shard.vocab, settings_.vocab - shard.first_vocab));
  options.chunk_rows = settings_.loss.chunk_rows > 0
                           ? settings_.loss.chunk_rows
                           : default_chunk_rows(shard.vocab, teacher_ != nullptr ? 2 : 1);
  model::HeadInput teacher_input, student_input{student_rows, &student_.head()};
  if (teacher_ != nullptr && batch(slot).role != data::Role::corpus)
    teacher_input = {teacher_rows, &teacher_->head()};
  sums_[batch(slot).role] += model::head_loss(pass.tape, student_.tp(), options, student_input,
                                              teacher_input, device_rows.labels);
}

}  // namespace fathom::train
