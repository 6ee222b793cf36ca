#include "train/engine.h"

#include "train/hf_weights.h"

namespace fathom::train {
namespace {

DistilWork::Settings work_settings(const TrainConfig& config) {
  return {.loss = config.loss,
          .dropout = config.dropout,
          .recompute = config.memory.recompute,
          .seed = static_cast<std::uint32_t>(config.run.seed)};
}

comm::Communicator* group_or_null(comm::Communicator& group) {
  return group.size() > 1 ? &group : nullptr;
}

}  // namespace

Engine::Engine(Device& device, comm::ProcessGrid& grid, const TrainConfig& config,
               const EnginePlan& plan, bool train)
    : device_(device), grid_(grid), config_(config), plan_(plan) {
  const auto place = grid.place();
  const auto trainable = [&](const std::string& name) {
    return train && !config_.model.freeze.match(name);
  };
  student_ = std::make_unique<model::Stage>(
      device, plan_.student,
      plan_.stage_plan(plan_.student, plan_.student_layers, grid.shape(), place),
      group_or_null(grid.tp()), trainable, config_.model.frozen_dtype);
  if (plan_.teacher)
    teacher_ = std::make_unique<model::Stage>(
        device, *plan_.teacher,
        plan_.stage_plan(*plan_.teacher, *plan_.teacher_layers, grid.shape(), place),
        group_or_null(grid.tp()), [](const std::string&) { return false; }, config_.teacher.dtype);
  if (student_->plan().shard.kv_replicas > 1)
    kv_replicas_ = grid.make_kv_replica_group(static_cast<int>(plan_.student.kv_heads));
  work_ = std::make_unique<DistilWork>(*student_, teacher_.get(), work_settings(config_));
  first_trainable_ = train ? first_trainable_stage() : grid.shape().pp;
  const int stage = place.pp;
  std::vector<pipeline::BundlePart> in, out;
  if (!grid.is_first_stage()) in = work_->bundle_parts(first_trainable_ < stage);
  if (!grid.is_last_stage()) out = work_->bundle_parts(first_trainable_ <= stage);
  executor_ =
      std::make_unique<pipeline::Executor>(device, grid.pp(), std::move(in), std::move(out));
  if (!train) return;
  reducer_ = std::make_unique<GradientReducer>(grid, kv_replicas_.get(), student_->parameters());
  optimizer_ = std::make_unique<Optimizer>(device, config_.optim, student_->parameters());
}

// The first stage with a trainable parameter; the number of stages if there is none.
int Engine::first_trainable_stage() {
  const bool here = student_->parameters().gradients().defined();
  std::int64_t first = here ? grid_.place().pp : grid_.shape().pp;
  grid_.pp().all_reduce(&first, 1, comm::ReduceOp::min);
  return static_cast<int>(first);
}

void Engine::load_teacher() {
  if (teacher_)
    model::load_parameters(teacher_->parameters(),
                           HfWeights(config_.teacher.path, plan_.teacher->family));
}

void Engine::load_initial_weights() {
  load_teacher();
  model::ParameterSet& parameters = student_->parameters();
  switch (config_.model.init) {
    case Init::random:
      model::load_parameters(parameters,
                             model::RandomWeights(static_cast<std::uint64_t>(config_.run.seed)));
      break;
    case Init::path:
      model::load_parameters(parameters, HfWeights(config_.model.path, plan_.student.family));
      break;
    case Init::teacher_layers: {
      const HfWeights source(config_.teacher.path, plan_.teacher->family);
      model::load_parameters(parameters, model::ChosenLayers(source, plan_.student.family,
                                                             plan_.student_from_teacher));
      break;
    }
  }
}

model::LossSums Engine::forward_backward(std::vector<data::MicroBatch> slots,
                                         std::int64_t label_tokens, std::int64_t step,
                                         const pipeline::ActionObserver& observer) {
  FATHOM_CHECK(reducer_ != nullptr, "the engine was not made for training");
  const int count = static_cast<int>(slots.size());
  work_->begin(std::move(slots), label_tokens, static_cast<std::uint32_t>(step));
  work_->bucket_done = [this](int bucket) { reducer_->bucket_done(bucket); };
  executor_->run(
      pipeline::schedule_1f1b(grid_.place().pp, grid_.shape().pp, count, first_trainable_), *work_,
      true, observer);
  reducer_->finish();
  work_->bucket_done = nullptr;
  return reduce(work_->sums());
}

model::LossSums Engine::evaluate(std::vector<data::MicroBatch> slots,
                                 const pipeline::ActionObserver& observer) {
  const int count = static_cast<int>(slots.size());
  work_->begin(std::move(slots), 1, 0);
  executor_->run(pipeline::schedule_forward(grid_.place().pp, grid_.shape().pp, count), *work_,
                 false, observer);
  return reduce(work_->sums());
}

// Sums live on the last stages, the same on each tensor rank: summed over dp and handed back over
// pp.
model::LossSums Engine::reduce(model::LossSums sums) {
  double values[2] = {sums.cross_entropy, sums.forward_kl};
  std::int64_t counts[2] = {sums.correct, sums.tokens};
  for (comm::Communicator* group : {&grid_.dp(), &grid_.pp()}) {
    group->all_reduce(values, 2, comm::ReduceOp::sum);
    group->all_reduce(counts, 2, comm::ReduceOp::sum);
  }
  return {values[0], values[1], counts[0], counts[1]};
}

}  // namespace fathom::train
