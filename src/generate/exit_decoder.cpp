#include "generate/exit_decoder.h"

#include <algorithm>

#include "generate/row_sets.h"
#include "kernels/elementwise.h"
#include "kernels/mixture.h"

namespace fathom::generate {

using autograd::Var;

ExitDecoder::ExitDecoder(const model::Stage& stage, comm::Communicator& pp, std::int64_t slots,
                         std::int64_t capacity, const methods::mode::LateVote& vote,
                         const ExitOptions& options)
    : blocks_(stage, slots, capacity),
      stage_(stage),
      vote_(vote),
      late_{.gate = vote.gate_layer(),
            .layers = stage.spec().layers,
            .begin = std::max(stage.plan().first_layer, vote.gate_layer()),
            .end = stage.plan().end_layer},
      capacity_(capacity),
      gate_(options, vote, stage, pp),
      ledger_(options, slots, late_.gate, late_.layers),
      places_(options.flush > 0 ? std::min(options.flush, capacity) : capacity),
      counts_(static_cast<std::size_t>(vote.spec().k)) {
  for (const model::Block& block : stage.blocks())
    require(options.cache != ExitCache::copy || block.layer < late_.gate || !block.control,
            ErrorKind::config, "--exit-cache=copy: layer ", block.layer + 1,
            " runs with another one beside it (MoLEx), which a copy passes over; take deferred");
  if (options.cache == ExitCache::deferred && late_.end > late_.gate)
    waiting_ = Tensor::empty(stage.device(), {slots * places_, stage.spec().hidden});
}

bool ExitDecoder::has_gate() const {
  return stage_.plan().first_layer <= late_.gate && late_.gate < late_.end;
}

Tensor ExitDecoder::run(int group, const Step& step, StageLink& link) {
  Tensor below;  // what the router sees
  std::vector<float> weights;
  if (late_.end <= late_.gate) {
    link.send_hidden(group, run_early(group, step, link));
    return {};
  }
  if (has_gate()) {
    below = run_early(group, step, link);
    weights = gate_.weigh(rows_of(below, step.scored_rows));
  } else {
    weights = link.receive_weights(group, step.scored_rows.size() * counts_.tokens.size());
  }
  const std::vector<std::int64_t> depths = depths_of(weights);
  const bool alone = step.prompt_slots.empty();
  if (link.is_last()) {
    counts_.steps += alone;
    for (std::size_t i = step.prompt_slots.size(); i < depths.size(); ++i)
      ++counts_.tokens[static_cast<std::size_t>(depths[i] - late_.gate - 1)];
  }
  const LateStep late(step, ledger_.plan(step, depths), late_, capacity_, std::move(weights));
  States states = has_gate() ? States{below, std::vector<Tensor>(counts_.tokens.size())}
                             : receive(group, late, link);
  const RowSet entering = late.entering();
  if (!entering.empty()) states.matrix = stack({states.matrix, gather(waiting_, places(entering))});
  for (std::int64_t block = late_.begin; block < late_.end; ++block)
    run_block(late, block, alone, states);
  const RowSet parking = late.parking();
  if (!parking.empty())
    kernels::scatter_rows(rows_of(states.matrix, parking.index),
                          upload(stage_.device(), places(parking)), waiting_);
  if (link.is_last()) return mix(late, states);
  send(group, late, states, link);
  return {};
}

// Blocks that each scored row needs.
std::vector<std::int64_t> ExitDecoder::depths_of(const std::vector<float>& weights) const {
  const std::size_t k = counts_.tokens.size();
  std::vector<std::int64_t> depths;
  for (std::size_t at = 0; at < weights.size(); at += k)
    depths.push_back(late_.gate + depth_of(std::span(weights).subspan(at, k)));
  return depths;
}

// All rows up to the late layers.
Tensor ExitDecoder::run_early(int group, const Step& step, StageLink& link) {
  const model::StagePlan& plan = stage_.plan();
  const model::Pass pass = blocks_.pass(step, step.ids);
  const Var x =
      plan.has_embedding
          ? stage_.embed(pass)
          : Var(link.receive_hidden(group, stage_.device(), step.rows(), stage_.spec().hidden));
  return stage_.run_blocks(pass, x, plan.first_layer, std::min(plan.end_layer, late_.gate)).value;
}

// From the stage before: rows that move on, and below them, layer by layer, states that vote.
ExitDecoder::States ExitDecoder::receive(int group, const LateStep& late, StageLink& link) {
  const std::int64_t made = late_.begin - late_.gate;  // late layers of the stages before
  std::int64_t rows = late.arriving();
  std::vector<std::int64_t> counts;
  for (std::int64_t expert = 0; expert < made; ++expert) {
    counts.push_back(static_cast<std::int64_t>(late.decided_by(expert).size()));
    rows += counts.back();
  }
  const Tensor all = link.receive_hidden(group, stage_.device(), rows, stage_.spec().hidden);
  States states{all.slice_rows(0, late.arriving()),
                std::vector<Tensor>(static_cast<std::size_t>(late.experts()))};
  std::int64_t at = late.arriving();
  for (std::size_t expert = 0; expert < counts.size(); ++expert) {
    if (counts[expert] == 0) continue;
    states.votes[expert] = all.slice_rows(at, counts[expert]);
    at += counts[expert];
  }
  return states;
}

void ExitDecoder::send(int group, const LateStep& late, const States& states,
                       StageLink& link) const {
  // Not rows_of(): those that waited here have changed places.
  std::vector<Tensor> parts{gather(states.matrix, late.leaving())};
  for (std::int64_t expert = 0; expert < late_.end - late_.gate; ++expert)
    if (const Tensor& vote = states.votes[static_cast<std::size_t>(expert)]) parts.push_back(vote);
  link.send_weights(group, late.weights());
  link.send_hidden(group, stack(parts));
}

void ExitDecoder::run_block(const LateStep& late, std::int64_t block, bool counts, States& states) {
  const auto expert = static_cast<std::size_t>(block - late_.gate);
  if (const RowSet set = late.copying(block); !set.empty()) {
    blocks_.store_keys_values(set.rows, block, rows_of(states.matrix, set.index));
    if (counts && late.running(block).empty()) ++counts_.copies[expert];
  }
  if (const RowSet set = late.running(block); !set.empty()) {
    counts_.runs[expert] += counts;
    const model::Pass pass = blocks_.pass(set.rows);
    const Tensor after =
        stage_.run_blocks(pass, Var(rows_of(states.matrix, set.index)), block, block + 1).value;
    if (after.rows() == states.matrix.rows())
      states.matrix = after;
    else
      kernels::scatter_rows(after, upload(stage_.device(), set.index), states.matrix);
  }
  const auto voting = late.rows_decided_by(static_cast<std::int64_t>(expert));
  // A copy: rows that go on change in place.
  if (!voting.empty()) states.votes[expert] = gather(states.matrix, voting);
}

Tensor ExitDecoder::mix(const LateStep& late, const States& states) const {
  Device& device = stage_.device();
  const Tensor weights = Tensor::from_host(device, {late.scored(), late.experts()}, late.weights());
  const Tensor mixture = Tensor::zeros(device, {late.scored(), stage_.spec().embed_dim});
  for (std::int64_t expert = 0; expert < late.experts(); ++expert) {
    const std::vector<std::int32_t> rows = late.decided_by(expert);
    if (rows.empty()) continue;
    const Var state(states.votes[static_cast<std::size_t>(expert)]);
    const Tensor x = vote_.expert(stage_, {}, late_.gate + 1 + expert, state).value;
    const Tensor weighed = Tensor::empty(device, x.shape());
    kernels::weigh_rows(x, rows_of(weights, rows), expert, weighed, false);
    kernels::accumulate_rows(weighed, upload(device, rows), mixture);
  }
  return mixture;
}

// A sequence's waiting tokens are its last ones, fewer than places_.
std::vector<std::int32_t> ExitDecoder::places(const RowSet& set) const {
  std::vector<std::int32_t> places;
  for (std::size_t i = 0; i < set.rows.slots.size(); ++i)
    places.push_back(
        static_cast<std::int32_t>(set.rows.slots[i] * places_ + set.rows.positions[i] % places_));
  return places;
}

}  // namespace fathom::generate
