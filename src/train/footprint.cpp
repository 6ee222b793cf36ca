#include "train/footprint.h"

#include <algorithm>

#include "methods/adapters/tensors.h"
#include "train/operation_counts.h"
#include "train/state_losses.h"
#include "train/token_costs.h"

namespace fathom::train {
namespace {

struct StageSize {
  double parameters = 0;
  double layers = 0;
};

// Parameters of one stage on one tensor rank.
StageSize stage_size(const model::ModelSpec& spec, const pipeline::Partition& layers,
                     const GridConfig& grid, int stage) {
  model::ModelSpec blocks_only = spec;
  blocks_only.layers = 1;
  model::ModelSpec nothing = spec;
  nothing.layers = 0;
  const double block = static_cast<double>(blocks_only.parameters() - nothing.parameters());
  const double table = static_cast<double>(spec.vocab * spec.embed_dim);
  const bool first = stage == 0, last = stage == grid.pp - 1;
  StageSize size;
  size.layers = layers.count(stage);
  size.parameters = size.layers * block / grid.tp;
  if (first) size.parameters += table / grid.tp;
  if (last && !(spec.tied && first)) size.parameters += table / grid.tp;
  if (first && spec.learned_positions)
    size.parameters +=
        static_cast<double>((spec.max_positions + spec.position_offset) * spec.hidden);
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

AddedSize added_size(const EnginePlan& plan, const GridConfig& grid, int stage) {
  if (plan.moc.enabled) return moc_size(plan, grid, stage);
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

// Bytes on a rank of the last stage for micro-batches of so many tokens: the largest set of logits,
// which are never there together, and the states that go into the head.
double head_bytes(const TrainConfig& config, const EnginePlan& plan, double tokens) {
  const std::int64_t vocab = std::max<std::int64_t>(1, plan.loss_vocab / config.grid.tp);
  const int buffers = logit_buffers(config.mode, plan.teacher.has_value());
  const std::int64_t rows =
      config.loss.chunk_rows > 0 ? config.loss.chunk_rows : default_chunk_rows(vocab, buffers);
  const auto logits = [&](std::int64_t chunk_rows, std::size_t matrices) {
    return std::min(static_cast<double>(chunk_rows), tokens) * static_cast<double>(vocab) *
           static_cast<double>(matrices);
  };
  double most = logits(rows, static_cast<std::size_t>(buffers));
  if (!plan.fdd_layers.empty())
    most = std::max(most, logits(fdd_chunk_rows(plan, config.grid), 2 * plan.fdd_layers.size()));
  return 4 * (most + 3 * tokens * static_cast<double>(plan.student.embed_dim));
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
  return values;
}

}  // namespace

Footprint footprint(const TrainConfig& config, const EnginePlan& plan, int stage) {
  Footprint result;
  const StageSize student = stage_size(plan.student, plan.student_layers, config.grid, stage);
  const bool adapted = is_tuned(plan);
  const AddedSize added = added_size(plan, config.grid, stage);
  const double projectors = projector_size(config, plan, stage);
  const double trained = (adapted ? added.trained : student.parameters) + projectors;
  const DType stored = adapted ? config.model.frozen_dtype : DType::f32;
  const double own =
      static_cast<double>(size_of(stored)) * student.parameters + 4 * (added.all + projectors);
  result.weights = own + 4 * added.bank;
  result.gradients = 4 * (trained + added.bank);
  result.moments = 8 * trained;
  result.save = (own + result.moments) / config.grid.dp;  // replicas share it out
  if (plan.teacher) {
    const StageSize teacher = stage_size(*plan.teacher, *plan.teacher_layers, config.grid, stage);
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
  result.activations = 4 * tokens * in_flight * kept;
  // One block at a time is made again.
  if (config.memory.recompute == Recompute::block) result.activations += 4 * tokens * largest;
  if (stage == config.grid.pp - 1) result.head = head_bytes(config, plan, tokens);
  return result;
}

pipeline::StageCost stage_cost(const TrainConfig& config, const EnginePlan& plan, int stage,
                               std::int64_t tokens) {
  const bool last = stage == config.grid.pp - 1;
  const double unit = 2e-12 * static_cast<double>(tokens) / config.grid.tp;
  const TokenCosts costs = token_costs(config, plan);
  const auto of = [&](double block, double head, const pipeline::Partition& layers) {
    return unit * (layers.count(stage) * block + (last ? head : 0));
  };
  pipeline::StageCost cost;
  cost.forward_s = of(costs.student_block, costs.student_head, plan.student_layers);
  const double again = config.memory.recompute == Recompute::block ? 1 : 0;
  cost.backward_s = (costs.backward + again) * cost.forward_s;
  double added = 0;
  for (int layer = plan.student_layers.begin(stage); layer < plan.student_layers.end(stage);
       ++layer)
    added += unit * added_multiply_adds(plan, layer);
  cost.forward_s += added;
  cost.backward_s += 2 * added;
  if (plan.teacher)
    cost.forward_s += of(costs.teacher_block, costs.teacher_head, *plan.teacher_layers);
  const Boundary next = boundary(plan, stage), before = boundary(plan, stage - 1);
  if (!last) cost.bundle_bytes = static_cast<std::size_t>(4 * tokens * next.bundle);
  if (stage > 0) cost.grad_bytes = static_cast<std::size_t>(4 * tokens * before.gradient);
  return cost;
}

}  // namespace fathom::train
