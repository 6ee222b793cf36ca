#include "train/mode_transport.h"

#include <algorithm>

#include "methods/mode/late_vote.h"
#include "train/operation_counts.h"
#include "train/token_costs.h"

namespace fathom::train {

using methods::mode::LateVote;
using methods::mode::Transport;
using methods::mode::VotePart;

namespace {

LateVote vote_of(const EnginePlan& plan) {
  return LateVote(*plan.mode, plan.student);
}

// The stage of the first layer that votes.
int first_late_stage(const EnginePlan& plan) {
  return plan.student_layers.stage_of(static_cast<int>(plan.student.layers - plan.mode->k));
}

}  // namespace

ModeTransport mode_transport(const TrainConfig& config, const EnginePlan& plan) {
  const StateRoutes routes(plan.student_layers, nullptr, {vote_of(plan).site()});
  const double tokens =
      static_cast<double>(config.batch.micro_batch) * static_cast<double>(plan.context);
  const auto width = static_cast<double>(plan.student.hidden);
  const double vocab = static_cast<double>(plan.loss_vocab) / config.grid.tp;
  const double head = vocab * static_cast<double>(plan.student.embed_dim);
  const int last = plan.student_layers.stages() - 1;
  ModeTransport cost;
  for (const StateRoute& route : routes.routes())
    cost.state_bytes += 4 * tokens * width * (route.to - route.from);
  const std::int64_t first =
      plan.student.layers - plan.mode->k;  // counted from 0: the first that votes
  const int sender = first_late_stage(plan);
  cost.mixture_bytes = 4 * tokens * static_cast<double>(sum_values(plan)) * (last - sender);
  const int products = head_products(config, plan);
  cost.head_flops = 2 * tokens * head * products;
  if (products == 1) return cost;
  for (int stage = sender; stage < last; ++stage) {
    const std::int64_t late = plan.student_layers.end(stage) -
                              std::max<std::int64_t>(first, plan.student_layers.begin(stage));
    cost.early_flops += 2 * tokens * head * static_cast<double>(late);
    cost.head_bytes += 4 * head;
    cost.logit_bytes += 4 * tokens * vocab * (last - stage);
  }
  return cost;
}

const char* states_needed(const TrainConfig& config, const EnginePlan& plan) {
  if (head_products(config, plan) > 1)
    return "each layer's divergence needs the last layer's logits, which would have to come before "
           "any backward pass could begin";
  const ModeTransport cost = mode_transport(config, plan);
  if (cost.mixture_bytes >= cost.state_bytes) return "it is no less";
  if (plan.mode->norms == methods::mode::Norms::shared)
    return "the one norm of all late layers is the last stage's";
  if (config.mode.shrink.enabled()) return "the first of the late layers may move to a later stage";
  if (config.distill.generates())
    return "the student's own answers are written with norms and router of the last stage";
  // Norms would be trained in front of blocks that need no backward pass now.
  const int last_block = plan.student_layers.end(first_late_stage(plan)) - 1;
  if (token_costs(config, plan).backward[static_cast<std::size_t>(last_block)] == 0)
    return "nothing before the last stage is trained, and no gradient has to come back so far";
  return nullptr;
}

Transport choose_transport(const TrainConfig& config, const EnginePlan& plan) {
  return states_needed(config, plan) == nullptr ? Transport::mixture : Transport::states;
}

VotePart vote_part(const EnginePlan& plan, int stage) {
  const LateVote vote = vote_of(plan);
  const auto& layers = plan.student_layers;
  if (plan.vote_transport == Transport::mixture)
    return vote.part_of(layers.begin(stage) + 1, layers.end(stage) + 1);
  return stage + 1 == layers.stages() ? vote.part_of(1, plan.student.layers + 1) : VotePart();
}

std::vector<methods::Site> vote_sites(const EnginePlan& plan) {
  const LateVote vote = vote_of(plan);
  if (plan.vote_transport == Transport::states) return {vote.site()};
  std::vector<methods::Site> sites;
  for (int stage = first_sum_sender(plan); stage < plan.student_layers.stages(); ++stage)
    sites.push_back(vote.site(vote_part(plan, stage)));
  return sites;
}

int first_sum_sender(const EnginePlan& plan) {
  if (!plan.mode || plan.vote_transport == Transport::states)
    return plan.student_layers.stages() - 1;
  return first_late_stage(plan);
}

std::int64_t sum_values(const EnginePlan& plan) {
  return plan.student.hidden + (plan.mode->routed() ? plan.mode->k : 0);
}

}  // namespace fathom::train
