#include "train/engine.h"

#include "core/log.h"
#include "core/parameter_names.h"
#include "kernels/attention.h"
#include "kernels/range.h"
#include "methods/adapters/extension.h"
#include "methods/adapters/parameter_names.h"
#include "train/adapter_folder.h"
#include "train/hf_weights.h"
#include "train/mode_file.h"
#include "train/mode_transport.h"
#include "train/trained.h"

namespace fathom::train {
namespace {

DistilWork::Settings work_settings(const TrainConfig& config, const EnginePlan& plan,
                                   RowAlpha* row_alpha) {
  return {.loss = config.loss,
          .mode = config.mode,
          .vocab = plan.loss_vocab,
          .dropout = config.dropout,
          .recompute = config.memory.recompute,
          .seed = static_cast<std::uint32_t>(config.run.seed),
          .row_alpha = row_alpha};
}

StateLosses place_losses(const EnginePlan& plan, const Engine::Losses& losses,
                         const methods::mode::LateVote* vote, int stage) {
  StateLosses placed;
  placed.vote = vote;
  std::vector<methods::Site> sites;
  std::vector<std::size_t> ends;  // of each loss's sites in the list of all
  for (const auto& loss : losses) {
    for (methods::Site& site : loss->sites()) sites.push_back(std::move(site));
    ends.push_back(sites.size());
  }
  if (vote != nullptr) {
    const std::vector<methods::Site> of_vote = vote_sites(plan);
    sites.insert(sites.end(), of_vote.begin(), of_vote.end());
    placed.without_tape = StateRoutes(plan.student_layers, nullptr, of_vote);
    placed.first_sum_sender = first_sum_sender(plan);
  }
  placed.routes = StateRoutes(plan.student_layers,
                              plan.teacher_layers ? &*plan.teacher_layers : nullptr, sites);
  std::size_t first = 0;
  for (std::size_t i = 0; i < losses.size(); first = ends[i++]) {
    placed.losses.push_back({losses[i].get(), {}});
    for (std::size_t site = first; site < ends[i]; ++site)
      if (placed.routes.stage_of_site(site) == stage)
        placed.losses.back().sites.push_back(site - first);
  }
  return placed;
}

// A method's own parameters start from their own distribution, whatever the model's start from; an
// adapter's from its folder if it has one, and so do those of late layers that vote.
class WithMethods : public model::WeightSource {
 public:
  WithMethods(const model::WeightSource& model, const model::WeightSource* adapter,
              const ModeFolder* votes, std::uint64_t seed)
      : model_(model), adapter_(adapter), votes_(votes), own_(seed) {}
  void read(const model::Parameter& parameter, const model::Piece& piece,
            float* out) const override {
    if (votes_ != nullptr && votes_->has(parameter.name))
      votes_->read(parameter, piece, out);
    else if (adapter_ != nullptr && methods::adapters::is_adapter_parameter(parameter.name))
      adapter_->read(parameter, piece, out);
    else if (is_method_parameter(parameter.name))
      own_.read(parameter, piece, out);
    else
      model_.read(parameter, piece, out);
  }

 private:
  const model::WeightSource& model_;
  const model::WeightSource* adapter_;
  const ModeFolder* votes_;
  model::RandomWeights own_;
};

comm::Communicator* group_or_null(comm::Communicator& group) {
  return group.size() > 1 ? &group : nullptr;
}

}  // namespace

Engine::Engine(Device& device, comm::ProcessGrid& grid, const TrainConfig& config,
               const EnginePlan& plan, bool train, Losses losses)
    : device_(device),
      grid_(grid),
      config_(config),
      plan_(plan),
      vote_(plan_.mode ? std::make_unique<methods::mode::LateVote>(*plan_.mode, plan_.student)
                       : nullptr),
      row_alpha_(config.distill.curriculum ? std::make_unique<RowAlpha>(config.loss.alpha)
                                           : nullptr),
      losses_(std::move(losses)) {
  kernels::require_attention(device, plan_.student.head_dim, train);
  if (plan_.teacher) kernels::require_attention(device, plan_.teacher->head_dim, false);
  make_extension();
  const auto place = grid.place();
  const StateLosses placed = place_losses(plan_, losses_, vote_.get(), place.pp);
  std::function<void(model::ParameterSet&)> declare_more;
  if (!losses_.empty() || vote_)
    declare_more = [&](model::ParameterSet& set) {
      for (const StateLosses::Placed& one : placed.losses)
        one.loss->declare(one.sites, place.tp == 0, set);
      if (vote_) vote_->declare(place.tp == 0, set, vote_part(plan_, place.pp));
    };
  const auto trainable = [&](const std::string& name) {
    return train && trains(config_, plan_, name);
  };
  student_ = std::make_unique<model::Stage>(
      device, plan_.student,
      plan_.stage_plan(plan_.student, plan_.student_layers, grid.shape(), place),
      group_or_null(grid.tp()), trainable, config_.model.frozen_dtype, declare_more,
      extension_.get());
  if (plan_.teacher)
    teacher_ = std::make_unique<model::Stage>(
        device, *plan_.teacher,
        plan_.stage_plan(*plan_.teacher, *plan_.teacher_layers, grid.shape(), place),
        group_or_null(grid.tp()), [](const std::string&) { return false; }, config_.teacher.dtype);
  if (student_->plan().shard.kv_replicas > 1)
    kv_replicas_ = grid.make_kv_replica_group(static_cast<int>(plan_.student.kv_heads));
  work_ = std::make_unique<DistilWork>(*student_, teacher_.get(), place.pp,
                                       work_settings(config_, plan_, row_alpha_.get()), placed);
  first_trainable_ = train ? first_trainable_stage() : grid.shape().pp;
  make_executors(train);
  if (!train) return;
  reducer_ = std::make_unique<GradientReducer>(grid, kv_replicas_.get(), student_->parameters());
  optimizer_ = std::make_unique<Optimizer>(device, config_.optim, student_->parameters());
}

void Engine::make_extension() {
  if (!plan_.moc.enabled) {
    extension_ = methods::adapters::make_extension(plan_.adapter, plan_.student);
    return;
  }
  std::vector<std::int64_t> layers;
  for (int stage = 0; stage < grid_.shape().pp; ++stage)
    layers.push_back(plan_.student_layers.count(stage));
  auto moc = std::make_unique<methods::moc::MixtureOfControl>(
      plan_.moc, plan_.student, layers, group_or_null(grid_.pp()), group_or_null(grid_.dp()));
  moc_ = moc.get();
  extension_ = std::move(moc);
}

// What training moves and what evaluation does.
void Engine::make_executors(bool train) {
  const int stage = grid_.place().pp;
  const auto make = [&](bool training) {
    std::vector<pipeline::BundlePart> in, out;
    if (!grid_.is_first_stage()) in = work_->bundle_parts(stage - 1, first_trainable_, training);
    if (!grid_.is_last_stage()) out = work_->bundle_parts(stage, first_trainable_, training);
    return std::make_unique<pipeline::Executor>(device_, grid_.pp(), std::move(in), std::move(out));
  };
  evaluator_ = make(false);
  if (!train) return;
  executor_ = make(true);
  bytes_told_ = 0;  // a new executor has sent none
}

void Engine::keep_late_layers(int k) {
  FATHOM_CHECK(vote_ != nullptr, "no late layers vote");
  plan_.mode->k = k;
  vote_->keep_last(k, grid_.is_last_stage() ? &student_->parameters() : nullptr);
  work_->set_states(place_losses(plan_, losses_, vote_.get(), grid_.place().pp));
  make_executors(executor_ != nullptr);
}

// The first stage with a trainable parameter; the number of stages if there is none.
int Engine::first_trainable_stage() {
  const bool here = student_->parameters().gradients().defined();
  std::int64_t first = here ? grid_.place().pp : grid_.shape().pp;
  grid_.pp().all_reduce(&first, 1, comm::ReduceOp::min);
  return static_cast<int>(first);
}

void Engine::load_teacher() {
  if (teacher_) model::load_parameters(teacher_->parameters(), HfWeights(config_.teacher.path));
}

void Engine::load_initial_weights() {
  load_teacher();
  const auto seed = static_cast<std::uint64_t>(config_.run.seed);
  switch (config_.model.init) {
    case Init::random:
      load_student(model::RandomWeights(seed));
      break;
    case Init::path:
      load_student(HfWeights(config_.model.path));
      break;
    case Init::teacher_layers: {
      const HfWeights source(config_.teacher.path);
      load_student(model::ChosenLayers(source, plan_.student.family, plan_.student_from_teacher));
      break;
    }
  }
}

void Engine::load_student(const model::WeightSource& source) {
  std::unique_ptr<AdapterFolder> folder;
  if (!plan_.adapter_path.empty())
    folder = std::make_unique<AdapterFolder>(plan_.adapter_path, plan_.adapter, plan_.student);
  std::unique_ptr<ModeFolder> votes;
  if (!plan_.mode_path.empty())
    votes = std::make_unique<ModeFolder>(plan_.mode_path, *plan_.mode, plan_.student);
  if (votes && !votes->names_backbone() && grid_.world().rank() == 0)
    log_warn(plan_.mode_path,
             ": mode.json does not say which model its late layers were trained "
             "on, so that only their shapes were compared");
  model::load_parameters(
      student_->parameters(),
      WithMethods(source, folder.get(), votes.get(), static_cast<std::uint64_t>(config_.run.seed)));
  if (extension_ && !folder) extension_->initialise();
  if (vote_ && !votes) initialise_vote();
  weights_changed();
}

// The final norm is the last stage's; others with norms of late layers hear of it.
void Engine::initialise_vote() {
  methods::mode::NormValues norm;
  const auto width = static_cast<std::size_t>(plan_.student.hidden);
  norm.weight.resize(width);
  norm.bias.resize(plan_.student.norm == kernels::NormKind::layer ? width : 0);
  if (grid_.is_last_stage()) {
    norm.weight = to_host(student_->final_norm().weight.value);
    if (!norm.bias.empty()) norm.bias = to_host(student_->final_norm().bias.value);
  }
  if (plan_.vote_transport == methods::mode::Transport::mixture)
    for (std::vector<float>* values : {&norm.weight, &norm.bias})
      grid_.pp().broadcast(values->data(), sizeof(float) * values->size(), grid_.shape().pp - 1);
  vote_->initialise(norm, config_.mode.router_init);
}

void Engine::weights_changed() {
  if (extension_) extension_->weights_changed();
}

void Engine::update(double lr, double gradient_scale) {
  const kernels::Range range("update");
  optimizer_->step(lr, gradient_scale);
  weights_changed();
}

model::LossSums Engine::forward_backward(std::vector<data::MicroBatch> slots,
                                         const data::RoleCounts& counts, std::int64_t step,
                                         const pipeline::ActionObserver& observer) {
  FATHOM_CHECK(reducer_ != nullptr, "the engine was not made for training");
  const int count = static_cast<int>(slots.size());
  work_->begin(std::move(slots), counts, static_cast<std::uint32_t>(step));
  for (const auto& loss : losses_) loss->begin(work_->batches());
  if (row_alpha_) row_alpha_->begin(counts);
  if (extension_) begin_extension();
  work_->bucket_done = [this](int bucket) { reducer_->bucket_done(bucket); };
  executor_->run(
      pipeline::schedule_1f1b(grid_.place().pp, grid_.shape().pp, count, first_trainable_), *work_,
      true, observer);
  if (extension_) extension_->finish_gradients();
  {
    const kernels::Range range("reduce");
    reducer_->finish();
  }
  work_->bucket_done = nullptr;
  work_->end();
  reduce_state_terms();
  if (row_alpha_) {
    row_alpha_->finish(grid_.dp(), grid_.pp());
    for (methods::StateTerm& term : row_alpha_->terms()) state_terms_.push_back(std::move(term));
  }
  return reduce_sums();
}

void Engine::begin_extension() {
  std::int64_t supervised = 0;
  for (const data::MicroBatch& batch : work_->batches()) supervised += batch.label_tokens > 0;
  grid_.dp().all_reduce(&supervised, 1, comm::ReduceOp::sum);
  // A replica that ran nothing, or more, would leave the others waiting.
  FATHOM_CHECK(
      !extension_->meets() || (work_->batches().size() == 1 && !work_->batches().front().empty()),
      "replicas meet in each micro-batch, and this one has ", work_->batches().size());
  extension_->begin_step(supervised);
}

std::int64_t Engine::take_stage_bytes() {
  auto bytes = static_cast<std::int64_t>(executor_->bytes_sent() - bytes_told_);
  bytes_told_ = executor_->bytes_sent();
  grid_.pp().all_reduce(&bytes, 1, comm::ReduceOp::sum);
  return bytes;
}

std::optional<methods::moc::UsageSummary> Engine::expert_usage() {
  if (moc_ == nullptr) return std::nullopt;
  std::vector<double> counts = moc_->usage().counts();
  for (comm::Communicator* group : {&grid_.dp(), &grid_.pp()})
    group->all_reduce(counts.data(), counts.size(), comm::ReduceOp::sum);
  return usage_log_.add(counts, plan_.student.layers);
}

model::LossSums Engine::evaluate(std::vector<data::MicroBatch> slots,
                                 const pipeline::ActionObserver& observer,
                                 const data::RoleCounts& counts) {
  const int count = static_cast<int>(slots.size());
  state_terms_.clear();
  work_->begin(std::move(slots), counts, 0);
  evaluator_->run(pipeline::schedule_forward(grid_.place().pp, grid_.shape().pp, count), *work_,
                  false, observer);
  work_->end();
  return reduce_sums();
}

double Engine::objective(const model::LossSums& sums) const {
  double loss = sums.objective;
  for (const methods::StateTerm& term : state_terms_) loss += term.weight * value_of(term);
  return loss;
}

// Each term lives on the stages of its sites, the same on each tensor rank.
void Engine::reduce_state_terms() {
  state_terms_.clear();
  for (const auto& loss : losses_)
    for (methods::StateTerm& term : loss->terms()) state_terms_.push_back(std::move(term));
  for (methods::StateTerm& term : work_->vote_terms()) state_terms_.push_back(std::move(term));
  if (extension_)
    for (methods::StateTerm& term : extension_->terms()) state_terms_.push_back(std::move(term));
  std::vector<double> sums;
  for (const methods::StateTerm& term : state_terms_) sums.push_back(term.sum);
  if (sums.empty()) return;
  for (comm::Communicator* group : {&grid_.dp(), &grid_.pp()})
    group->all_reduce(sums.data(), sums.size(), comm::ReduceOp::sum);
  for (std::size_t i = 0; i < sums.size(); ++i) state_terms_[i].sum = sums[i];
}

// Sums live on the last stages, the same on each tensor rank: summed over dp and handed back over
// pp.
model::LossSums Engine::reduce_sums() {
  role_sums_ = work_->sums();
  for (comm::Communicator* group : {&grid_.dp(), &grid_.pp()}) role_sums_.all_reduce(*group);
  return role_sums_.total();
}

}  // namespace fathom::train
