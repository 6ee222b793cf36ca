#include "generate/stage_decoder.h"

#include <algorithm>

#include "generate/row_sets.h"

namespace fathom::generate {

StageDecoder::StageDecoder(const model::Stage& stage, std::int64_t slots, std::int64_t capacity,
                           const methods::mode::LateVote* vote)
    : blocks_(stage, slots, capacity), stage_(stage), vote_(vote) {
  if (vote_ == nullptr) return;
  for (const methods::KeyState& state : vote_->site().states) late_.push_back(state.layer);
}

std::int64_t StageDecoder::late_below(std::int64_t layer) const {
  return std::lower_bound(late_.begin(), late_.end(), layer) - late_.begin();
}

std::int64_t StageDecoder::input_rows(const Step& step) const {
  return step.rows() +
         late_below(stage_.plan().first_layer) * static_cast<std::int64_t>(step.scored_rows.size());
}

Tensor StageDecoder::run(int group, const Step& step, StageLink& link) {
  Tensor x;
  if (!link.is_first())
    x = link.receive_hidden(group, stage_.device(), input_rows(step), stage_.spec().hidden);
  x = run_blocks(step, x);
  if (link.is_last()) return finish(step, x);
  link.send_hidden(group, x);
  return {};
}

Tensor StageDecoder::run_blocks(const Step& step, const Tensor& input) {
  const model::StagePlan& plan = stage_.plan();
  model::Pass pass = blocks_.pass(step, step.ids);
  std::vector<Tensor> parts(1);
  // A stage's last state is what the next one begins with; the vote takes it there.
  const auto keep = [&](std::int64_t layer, const autograd::Var& state) {
    if (layer < plan.end_layer && std::binary_search(late_.begin(), late_.end(), layer))
      parts.push_back(rows_of(state.value, step.scored_rows));
  };
  if (vote_ != nullptr) pass.tap = keep;
  autograd::Var x;
  if (plan.has_embedding) {
    x = stage_.embed(pass);
  } else {
    x = autograd::Var(input.slice_rows(0, step.rows()));
    if (input.rows() > step.rows())
      parts.push_back(input.slice_rows(step.rows(), input.rows() - step.rows()));
    keep(plan.first_layer, x);
  }
  parts.front() = stage_.run_blocks(pass, x).value;
  return stack(parts);
}

Tensor StageDecoder::finish(const Step& step, const Tensor& hidden) const {
  const Tensor scored = rows_of(hidden.slice_rows(0, step.rows()), step.scored_rows);
  if (vote_ == nullptr) return stage_.finish({}, autograd::Var(scored)).value;
  const auto late = [&](std::int64_t layer) {
    return autograd::Var(
        hidden.slice_rows(step.rows() + late_below(layer) * scored.rows(), scored.rows()));
  };
  const autograd::Var normed = stage_.normalise({}, autograd::Var(scored));
  return mix(nullptr, vote_->votes(stage_, {}, late, normed)).value;
}

}  // namespace fathom::generate
