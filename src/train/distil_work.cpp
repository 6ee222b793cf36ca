#include "train/distil_work.h"

#include <algorithm>

namespace fathom::train {

using autograd::Tape;
using autograd::Var;
using methods::KeyState;
using methods::KeyStates;
using methods::Side;
using methods::mode::RunningVote;

std::int64_t default_chunk_rows(std::int64_t vocab, int models) {
  constexpr std::int64_t kMostBytes = std::int64_t{48} << 20;
  return std::clamp<std::int64_t>(kMostBytes / (4 * vocab * models) / 16 * 16, 64, 1024);
}

int logit_buffers(const ModeConfig& mode, bool teacher) {
  const bool distils = mode.enabled && mode.spec.k > 1 && mode.lambda > 0;
  return 1 + (teacher ? 1 : 0) + (distils ? mode.spec.k : 0);
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
  const StateRoutes& routes = training ? states_.routes : states_.without_tape;
  for (const StateRoute& route : routes.sent_by(stage)) {
    if (route.state.side == Side::teacher)
      parts.push_back({teacher_->spec().hidden, false});
    else
      parts.push_back({student_.spec().hidden, first_trainable <= route.made});
  }
  if (states_.sum_leaves(stage)) {
    parts.push_back({student_.spec().hidden, first_trainable <= stage});
    if (states_.vote->spec().routed())
      parts.push_back({states_.vote->spec().k, first_trainable <= stage});
  }
  if (const model::StageExtension* extension = student_.extension(); extension && training)
    for (const model::CarriedRow& row : extension->carried())
      parts.push_back({row.width, row.gradient && first_trainable <= stage, 1});
  return parts;
}

void DistilWork::begin(std::vector<data::MicroBatch> batches, const data::RoleCounts& counts,
                       std::uint32_t step) {
  batches_ = std::move(batches);
  rows_.clear();
  counts_ = counts;
  step_ = step;
  later_.clear();
  sums_ = {};
  distill_sum_ = 0;
  weight_sums_.assign(static_cast<std::size_t>(states_.vote ? states_.vote->spec().k : 0), 0.0);
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
  const model::StageExtension* extension = student_.extension();
  if (last && (extension == nullptr || !extension->crosses_layers()))
    pass.bucket_done = bucket_done;
  return pass;
}

void DistilWork::keep(const Tape* tape, KeyState key, const Var& state, KeyStates& states) const {
  if (states_.routes_of(tape).wanted(stage_, key)) states.put(key, state);
}

Var DistilWork::run_blocks(Side side, const model::Stage& model, model::Pass pass, const Var& in,
                           const Tape* tape, KeyStates& states) {
  // The last block's output is no key state before it has passed the final norm.
  const std::int64_t layers = model.spec().layers;
  if (!states_.losses.empty() || states_.vote != nullptr)
    pass.tap = [&, told = pass.tap](std::int64_t layer, const Var& state) {
      if (told) told(layer, state);
      if (layer < layers) keep(tape, {side, layer}, state, states);
    };
  if (in.defined()) keep(tape, {side, model.plan().first_layer}, in, states);
  return model.run_blocks(pass, in.defined() ? in : model.embed(pass));
}

// Entries of this rank's part of the vocabulary that count.
std::int64_t DistilWork::counted_vocab() const {
  const model::Shard& shard = student_.plan().shard;
  return std::max<std::int64_t>(0, std::min(shard.vocab, settings_.vocab - shard.first_vocab));
}

void DistilWork::add_heads(const model::Pass& pass, KeyStates& states) const {
  if (!student_.plan().has_head) return;
  const auto head = [&](const model::Stage& stage, const model::Pass& p) {
    return methods::KeyHead{
        .matrix = &stage.head(),
        .vocab = counted_vocab(),
        .tp = stage.tp(),
        .project = [&stage, p](const Var& state) { return stage.project(p, state); }};
  };
  states.student_head = head(student_, pass);
  if (teacher_ != nullptr) states.teacher_head = head(*teacher_, {});
}

void DistilWork::apply_state_losses(Tape* tape, int slot, const KeyStates& states) {
  for (const StateLosses::Placed& placed : states_.losses)
    for (const std::size_t site : placed.sites)
      placed.loss->apply(tape, slot, site, states, later_);
}

pipeline::Bundle DistilWork::forward(Tape* tape, int slot, const pipeline::Bundle& in) {
  if (tape != nullptr) tape->set_remakes(settings_.recompute == Recompute::cheap);
  model::Pass student_pass = pass(tape, slot);
  model::StageExtension* extension = student_.extension();
  const std::size_t models = teacher_ != nullptr ? 2 : 1;
  const auto received = [&](std::size_t part) { return in.empty() ? Var() : in[part]; };
  KeyStates states;
  RunningVote vote;
  std::vector<Var> carried;
  if (!in.empty()) {
    auto next = in.begin() + static_cast<std::ptrdiff_t>(models);
    for (const StateRoute& route : states_.routes_of(tape).sent_by(stage_ - 1))
      states.put(route.state, *next++);
    if (states_.sum_leaves(stage_ - 1)) {
      vote.sum = *next++;
      if (states_.vote->spec().routed()) vote.weights = *next++;
    }
    carried.assign(next, in.end());
  }
  if (extension != nullptr) student_pass.state = extension->begin_pass(student_pass, carried);
  Var teacher_states;
  if (teacher_ != nullptr) {
    model::Pass teacher_pass;
    teacher_pass.rows = student_pass.rows;
    teacher_states = run_blocks(Side::teacher, *teacher_, teacher_pass, received(0), tape, states);
  }
  Var student_states =
      run_blocks(Side::student, student_, student_pass, received(models - 1), tape, states);
  if (student_.plan().has_head) {
    if (head_tap) show_head_input(slot, student_states, states, vote);
    last_stage_loss(student_pass, slot, teacher_states, student_states, states, vote);
    student_states = teacher_states = Var();
  } else if (states_.sum_leaves(stage_)) {
    vote = extended(student_pass, states, std::move(vote), [](const Var& y) { return y; });
  }
  if (tape != nullptr) {
    add_heads(student_pass, states);
    apply_state_losses(tape, slot, states);
    if (extension != nullptr)
      carried = extension->end_pass(student_pass, batch(slot).label_tokens > 0);
  }
  if (tape != nullptr)
    for (const auto& [name, bytes] : tape->saved_bytes())
      saved_bytes_[name] = std::max(saved_bytes_[name], bytes);
  if (student_.plan().has_head) return {};
  pipeline::Bundle out;
  if (teacher_ != nullptr) out.push_back(teacher_states);
  out.push_back(student_states);
  for (const StateRoute& route : states_.routes_of(tape).sent_by(stage_))
    out.push_back(states.at(route.state));
  if (vote.sum.defined()) {
    out.push_back(vote.sum);
    if (states_.vote->spec().routed()) out.push_back(vote.weights);
  }
  if (tape != nullptr) out.insert(out.end(), carried.begin(), carried.end());
  return out;
}

// Of the rows that `rows_of` picks; last_normed has them already.
methods::mode::Votes DistilWork::votes(const model::Pass& pass, const KeyStates& states,
                                       const Var& last_normed, const RowsOf& rows_of) const {
  return states_.vote->votes(
      student_, pass, [&](std::int64_t layer) { return rows_of(states.student(layer)); },
      last_normed);
}

// The vote with what this stage adds to it.
RunningVote DistilWork::extended(const model::Pass& pass, const KeyStates& states,
                                 RunningVote so_far, const RowsOf& rows_of) const {
  return states_.vote->add(
      student_, pass, [&](std::int64_t layer) { return rows_of(states.student(layer)); },
      std::move(so_far));
}

void DistilWork::show_head_input(int slot, const Var& student, const KeyStates& states,
                                 const RunningVote& vote) const {
  const auto frozen = [](const Var& x) { return Var(x.value); };
  const model::Pass inference;
  const Var normed = student_.normalise(inference, frozen(student));
  if (vote.sum.defined()) {
    const RunningVote all =
        extended(inference, states, {frozen(vote.sum), frozen(vote.weights)}, frozen);
    return head_tap(slot, states_.vote->complete(student_, inference, all, normed).value);
  }
  head_tap(slot, states_.vote != nullptr
                     ? mix(nullptr, votes(inference, states, normed, frozen)).value
                     : student_.project(inference, normed).value);
}

void DistilWork::add_later(data::Role role, const Tensor& results) {
  later_.add(results, [this, role](const std::vector<float>& values) {
    sums_[role] += model::sum_results(values);
  });
}

void DistilWork::count_weights(const Tensor& weights) {
  later_.add(weights, [this](const std::vector<float>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      weight_sums_[i % weight_sums_.size()] += values[i];
  });
}

// The mixture is made of states where the head only needs that, else of logits.
void DistilWork::vote_loss(const model::Pass& pass, int slot, const model::HeadLoss& options,
                           const methods::mode::Votes& votes, const model::HeadInput& teacher,
                           const Tensor& labels) {
  if (vote_tap) vote_tap(slot, votes, labels);
  const data::Role role = batch(slot).role;
  count_weights(votes.weights.value);
  const auto k = static_cast<double>(votes.experts.size());
  if (pass.tape == nullptr || k == 1 || settings_.mode.lambda == 0)
    return add_later(
        role, model::head_losses(pass.tape, student_.tp(), options,
                                 {mix(pass.tape, votes), &student_.head()}, teacher, labels));
  const auto tokens = static_cast<double>(counts_.total().label_tokens);
  const methods::mode::VoteLoss vote{
      .head = options,
      .distill_weight = static_cast<float>(settings_.mode.lambda / (k - 1) / tokens),
      .temperature = static_cast<float>(settings_.mode.temperature)};
  const auto results = methods::mode::vote_losses(pass.tape, student_.tp(), vote, votes,
                                                  student_.head(), teacher, labels);
  add_later(role, results.task);
  later_.add(results.distill, [this](const std::vector<float>& values) {
    distill_sum_ += model::sum_results(values).objective;
  });
}

std::vector<methods::StateTerm> DistilWork::vote_terms() const {
  std::vector<methods::StateTerm> terms;
  if (states_.vote == nullptr) return terms;
  const double lambda = settings_.mode.lambda;
  if (lambda > 0 && states_.vote->spec().k > 1)
    terms.push_back({"mode_distill", lambda, distill_sum_ / lambda, 1});
  const auto tokens = static_cast<double>(std::max<std::int64_t>(1, counts_.total().label_tokens));
  const std::int64_t first = student_.spec().layers - states_.vote->spec().k + 1;
  for (std::size_t j = 0; j < weight_sums_.size(); ++j)
    terms.push_back(
        {str("mode_weight_", first + static_cast<std::int64_t>(j)), 0, weight_sums_[j], tokens});
  return terms;
}

// The curriculum wants to know how likely the answers are before their losses are computed: the
// heads run once more, for that alone.
Tensor DistilWork::row_alpha(const model::HeadLoss& options, const model::HeadInput& student,
                             const model::HeadInput& teacher, int slot) {
  model::HeadLoss look = options;
  look.loss.divergence = {};  // the cheapest one; its value is not used
  model::LabelLogProbs seen;
  model::head_loss(nullptr, student_.tp(), look, student, teacher, rows(slot).labels, &seen);
  return settings_.row_alpha->of_rows(student_.device(), batch(slot), seen);
}

void DistilWork::last_stage_loss(const model::Pass& pass, int slot, const Var& teacher,
                                 const Var& student, KeyStates& states, const RunningVote& vote) {
  const DeviceRows& device_rows = rows(slot);
  const std::int64_t labels = device_rows.labels.elements();
  // The norm goes row by row: all rows pass it only where a loss wants them all.
  const bool all = labels == student.value.rows();
  const auto rows_of = [&](const model::Pass& p, const Var& y) {
    return all ? y : autograd::gather(p.tape, y, device_rows.label_rows);
  };
  const auto supervised = [&](Side side, const model::Stage& stage, const model::Pass& p, Var x) {
    const KeyState last{side, stage.spec().layers};
    if (!states_.routes_of(pass.tape).wanted(stage_, last))
      return labels == 0 ? Var() : stage.normalise(p, rows_of(p, x));
    x = stage.normalise(p, x);
    states.put(last, x);
    return labels == 0 ? Var() : rows_of(p, x);
  };
  model::Pass inference;
  inference.rows = pass.rows;
  const Var student_rows = supervised(Side::student, student_, pass, student);
  const Var teacher_rows =
      teacher_ != nullptr ? supervised(Side::teacher, *teacher_, inference, teacher) : Var();
  if (labels == 0) {  // adds exactly nothing, and its states no gradient
    const model::StageExtension* extension = student_.extension();
    if (extension != nullptr && extension->meets() && student.slot)
      student.slot->add(Tensor::zeros(student_.device(), student.value.shape()));
    return;
  }
  const model::Shard& shard = student_.plan().shard;
  model::HeadLoss options;
  options.loss = token_loss(settings_.loss, counts_, batch(slot).role);
  options.row_weights = row_weights(student_.device(), settings_.loss, batch(slot));
  options.first_vocab = shard.first_vocab;
  options.vocab = counted_vocab();
  options.chunk_rows =
      settings_.loss.chunk_rows > 0
          ? settings_.loss.chunk_rows
          : default_chunk_rows(shard.vocab, logit_buffers(settings_.mode, teacher_ != nullptr));
  model::HeadInput teacher_input;
  if (teacher_ != nullptr && batch(slot).role != data::Role::corpus)
    teacher_input = {teacher_->project(inference, teacher_rows), &teacher_->head()};
  const auto of_labels = [&](const Var& y) { return y.defined() ? rows_of(pass, y) : y; };
  if (vote.sum.defined()) {
    FATHOM_CHECK(!vote_tap, "a running sum tells nothing of single layers");
    const RunningVote whole =
        extended(pass, states, {of_labels(vote.sum), of_labels(vote.weights)}, of_labels);
    count_weights(whole.weights.value);
    const Var mixed = states_.vote->complete(student_, pass, whole, student_rows);
    return add_later(batch(slot).role, model::head_losses(pass.tape, student_.tp(), options,
                                                          {mixed, &student_.head()}, teacher_input,
                                                          device_rows.labels));
  }
  if (states_.vote != nullptr)
    return vote_loss(pass, slot, options, votes(pass, states, student_rows, of_labels),
                     teacher_input, device_rows.labels);
  const model::HeadInput student_input{student_.project(pass, student_rows), &student_.head()};
  if (settings_.row_alpha != nullptr && RowAlpha::applies(batch(slot).role))
    options.row_alpha = row_alpha(options, student_input, teacher_input, slot);
  add_later(batch(slot).role, model::head_losses(pass.tape, student_.tp(), options, student_input,
                                                 teacher_input, device_rows.labels));
}

}  // namespace fathom::train
