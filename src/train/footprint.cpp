#include "train/footprint.h"

#include <algorithm>

#include "methods/adapters/tensors.h"
#include "methods/mode/late_vote.h"
#include "train/mode_transport.h"
#include "train/operation_counts.h"
#include "train/state_losses.h"
#include "train/token_costs.h"
#include "train/trained_parts.h"

namespace fathom::train {
namespace {

struct StageSize {
  double parameters = 0, trained = 0;
};

// Parameters of one stage on one tensor rank; of a model that is never trained without `parts`.
// Norms and biases of a layer, which are few, count as its matrices do.
StageSize stage_size(const model::ModelSpec& spec, const pipeline::Partition& layers,
                     const GridConfig& grid, int stage, const TrainedParts* parts) {
  model::ModelSpec blocks_only = spec;
  blocks_only.layers = 1;
  model::ModelSpec nothing = spec;
  nothing.layers = 0;
  const double block = static_cast<double>(blocks_only.parameters() - nothing.parameters());
  const double table = static_cast<double>(spec.vocab * spec.embed_dim);
  const bool first = stage == 0, last = stage == grid.pp - 1;
  StageSize size;
  const auto add = [&](double elements, double trained_share) {
    size.parameters += elements;
    size.trained += elements * trained_share;
  };
  for (int layer = layers.begin(stage); layer < layers.end(stage); ++layer)
    add(block / grid.tp, parts ? parts->share[static_cast<std::size_t>(layer)] : 0);
  if (first) add(table / grid.tp, parts && parts->embedding);
  if (last && !(spec.tied && first)) add(table / grid.tp, parts && parts->head);
  if (first && spec.learned_positions)
    add(static_cast<double>((spec.max_positions + spec.position_offset) * spec.hidden),
        parts && parts->positions);
  return size;
}

// What a method adds to one stage, as if each tensor rank held it whole: it is little.
struct AddedSize {
  double all = 0, trained = 0;
  double bank = 0;  ///< copies of all stages' controls, with as many gradients
};

AddedSize moc_size(const EnginePlan& plan, const GridConfig& grid, int stage) {
  const methods::moc::Spec& moc = plan.moc;
  const auto width = static_cast<double>(plan.student.hidden);
  const double control = 2 * moc.rank * width * moc.site_count();  // of a layer
  AddedSize size;
  size.all = size.trained = plan.student_layers.count(stage) * control +
                            moc.gate_count() * width * static_cast<double>(plan.student.layers);
  if (grid.pp == 1) return size;
  int most = 0;
  for (int s = 0; s < grid.pp; ++s) most = std::max(most, plan.student_layers.count(s));
  size.bank = grid.pp * most * control;
  return size;
}

AddedSize adapter_size(const EnginePlan& plan, int stage) {
  AddedSize size;
  for (const auto& tensor : methods::adapters::tensors(plan.adapter, plan.student)) {
    const bool shared = tensor.layer < 0;
    if (!shared && (tensor.layer < plan.student_layers.begin(stage) ||
                    tensor.layer >= plan.student_layers.end(stage)))
      continue;
    const auto elements = static_cast<double>(tensor.shape.elements());
    size.all += elements;
    if (tensor.trained) size.trained += elements;
  }
  return size;
}

// The projectors of MTA on one stage, whole on each of its tensor ranks.
double projector_size(const TrainConfig& config, const EnginePlan& plan, int stage) {
  if (plan.mta_layers.empty() || config.mta.hid_weight == 0) return 0;
  const StateRoutes routes = state_routes(plan);
  int sites = 0;
  for (std::size_t k = 0; k < plan.mta_layers.size(); ++k)
    sites += routes.stage_of_site(k) == stage;
  return static_cast<double>(sites * (plan.student.hidden + 1) * plan.teacher->hidden);
}

// Late layers that a stage gives a vote to itself.
std::int64_t own_votes(const EnginePlan& plan, int stage) {
  const auto part = vote_part(plan, stage);
  return part.end - part.first;
}

AddedSize added_size(const EnginePlan& plan, const GridConfig& grid, int stage) {
  AddedSize size = plan.moc.enabled ? moc_size(plan, grid, stage) : adapter_size(plan, stage);
  if (!plan.mode) return size;
  const auto votes = methods::mode::size_of(*plan.mode, plan.student, vote_part(plan, stage));
  size.all += static_cast<double>(votes.added);
  size.trained += static_cast<double>(votes.trained);  // the model's final norm among them
  return size;
}

std::int64_t rank_vocab(const TrainConfig& config, const EnginePlan& plan) {
  return std::max<std::int64_t>(1, plan.loss_vocab / config.grid.tp);
}

// Rows of a chunk of the head's losses.
std::int64_t chunk_rows(const TrainConfig& config, const EnginePlan& plan) {
  if (config.loss.chunk_rows > 0) return config.loss.chunk_rows;
  return default_chunk_rows(rank_vocab(config, plan),
                            logit_buffers(config.mode, plan.teacher.has_value()));
}

// Values of the logits that are there together, in chunks of micro-batches of so many tokens: those
// of the largest loss, as losses take turns.
double logit_values(const TrainConfig& config, const EnginePlan& plan, double tokens) {
  const auto values = [&](std::int64_t rows, std::size_t matrices) {
    return std::min(static_cast<double>(rows), tokens) *
           static_cast<double>(rank_vocab(config, plan)) * static_cast<double>(matrices);
  };
  const int buffers = logit_buffers(config.mode, plan.teacher.has_value());
  double most = values(chunk_rows(config, plan), static_cast<std::size_t>(buffers));
  if (!plan.fdd_layers.empty())
    most = std::max(most, values(fdd_chunk_rows(plan, config.grid), 2 * plan.fdd_layers.size()));
  return most;
}

// What the last stage holds from the last layer's states to the losses: of each layer that votes
// its states, normed ones and their gradients; late states of earlier stages, and their gradients;
// and the chunks in which layers are compared.
double head_values(const TrainConfig& config, const EnginePlan& plan, double tokens) {
  const auto width = static_cast<double>(plan.student.embed_dim);
  std::int64_t k = plan.mode ? own_votes(plan, plan.student_layers.stages() - 1) : 1;
  if (plan.mode && plan.vote_transport == methods::mode::Transport::mixture) ++k;  // the sum so far
  double values = logit_values(config, plan, tokens) + 3 * static_cast<double>(k) * tokens * width;
  if (!plan.mode) return values;
  const StateRoutes routes(plan.student_layers, nullptr, vote_sites(plan));
  values += 2 * tokens * static_cast<double>(plan.student.hidden) *
            static_cast<double>(routes.routes().size());
  if (head_products(config, plan) > 1)
    values +=
        static_cast<double>(chunk_rows(config, plan)) * width * static_cast<double>(2 * k + 1);
  return values;
}

// Values of a token that pass from `stage` to the next one, and those of its gradients that come
// back: both models' states, and the key states that losses on later stages want.
struct Boundary {
  std::int64_t bundle = 0, gradient = 0;
};

Boundary boundary(const EnginePlan& plan, int stage) {
  const std::int64_t teacher = plan.teacher ? plan.teacher->hidden : 0;
  Boundary values{plan.student.hidden + teacher, plan.student.hidden};
  for (const StateRoute& route : state_routes(plan).sent_by(stage)) {
    const bool student = route.state.side == methods::Side::student;
    values.bundle += student ? plan.student.hidden : teacher;
    if (student) values.gradient += plan.student.hidden;
  }
  if (stage >= first_sum_sender(plan) && stage + 1 < plan.student_layers.stages()) {
    values.bundle += sum_values(plan);
    values.gradient += sum_values(plan);
  }
  return values;
}

}  // namespace

Footprint footprint(const TrainConfig& config, const EnginePlan& plan, int stage) {
  Footprint result;
  const TrainedParts parts = trained_parts(config, plan);
  const StageSize student =
      stage_size(plan.student, plan.student_layers, config.grid, stage, &parts);
  const AddedSize added = added_size(plan, config.grid, stage);
  const double projectors = projector_size(config, plan, stage);
  const double trained = student.trained + added.trained + projectors;
  const double frozen = student.parameters - student.trained;
  const double own = static_cast<double>(size_of(config.model.frozen_dtype)) * frozen +
                     4 * (student.trained + added.all + projectors);
  result.weights = own + 4 * added.bank;
  result.gradients = 4 * (trained + added.bank);
  result.moments = 8 * trained;
  result.save = (own + result.moments) / config.grid.dp;  // replicas share it out
  if (plan.teacher) {
    const StageSize teacher =
        stage_size(*plan.teacher, *plan.teacher_layers, config.grid, stage, nullptr);
    result.teacher = static_cast<double>(size_of(config.teacher.dtype)) * teacher.parameters;
  }
  const double tokens =
      static_cast<double>(config.batch.micro_batch) * static_cast<double>(plan.context);
  const int slots = (config.batch.micro_batches + config.grid.dp - 1) / config.grid.dp;
  const double in_flight = std::min(slots, config.grid.pp - stage);
  double kept = 0, largest = 0;
  for (int layer = plan.student_layers.begin(stage); layer < plan.student_layers.end(stage);
       ++layer) {
    kept += kept_per_token(plan, config, layer);
    largest = std::max(largest, block_keeps(plan, config, layer));
  }
  const bool sends_sum = stage >= first_sum_sender(plan) && stage + 1 < config.grid.pp;
  if (sends_sum)  // normed states and their sum
    kept += static_cast<double>(plan.student.hidden * (own_votes(plan, stage) + 1));
  result.activations = 4 * tokens * in_flight * kept;
  // One block at a time is made again.
  if (config.memory.recompute == Recompute::block) result.activations += 4 * tokens * largest;
  if (stage == config.grid.pp - 1) result.head = 4 * head_values(config, plan, tokens);
  return result;
}

pipeline::StageCost stage_cost(const TrainConfig& config, const EnginePlan& plan, int stage,
                               std::int64_t tokens) {
  const bool last = stage == config.grid.pp - 1;
  const double unit = 2e-12 * static_cast<double>(tokens) / config.grid.tp;
  const TokenCosts costs = token_costs(config, plan);
  pipeline::StageCost cost;
  for (int layer = plan.student_layers.begin(stage); layer < plan.student_layers.end(stage);
       ++layer) {
    const double passes = costs.backward[static_cast<std::size_t>(layer)];
    const double again = passes > 0 && config.memory.recompute == Recompute::block ? 1 : 0;
    const double added = unit * added_multiply_adds(plan, layer);
    cost.forward_s += unit * costs.student_block + added;
    cost.backward_s += unit * (passes + again) * costs.student_block + 2 * added;
  }
  if (last) {
    cost.forward_s += unit * costs.student_head;
    cost.backward_s += unit * costs.head_backward * costs.student_head;
  }
  if (plan.teacher)
    cost.forward_s += unit * (plan.teacher_layers->count(stage) * costs.teacher_block +
                              (last ? costs.teacher_head : 0));
  const Boundary next = boundary(plan, stage), before = boundary(plan, stage - 1);
  if (!last) cost.bundle_bytes = static_cast<std::size_t>(4 * tokens * next.bundle);
  if (stage > 0) cost.grad_bytes = static_cast<std::size_t>(4 * tokens * before.gradient);
  return cost;
}

}  // namespace fathom::train
