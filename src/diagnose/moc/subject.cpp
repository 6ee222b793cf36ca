#include "diagnose/moc/subject.h"

#include "checkpoints/checkpoint_reader.h"
#include "kernels/attention.h"
#include "methods/adapters/adapter_config.h"
#include "methods/adapters/extension.h"
#include "methods/adapters/targets.h"
#include "methods/moc/spec_json.h"
#include "train/rows.h"
#include "train/run_state.h"

namespace fathom::diagnose::moc {

using autograd::Tape;
using autograd::Var;
using methods::moc::Decision;
using methods::moc::Groups;
using model::BlockSite;

Subject::Subject(Device& device, const std::filesystem::path& checkpoint) {
  const auto self = comm::self_communicator();
  auto reader = checkpoints::CheckpointReader::open(*self, checkpoint, {.verify = true});
  const std::string origin = checkpoint.string();
  const train::RunState state = train::parse_run_state(reader.manifest().run.state, origin);
  model_ = model::parse_config(state.model_config, origin + " (model_config)");
  kernels::require_attention(device, model_.head_dim, true);
  extension_ = std::make_unique<WatchedSites>(make_method(state.adapter, state.moc, origin));
  const model::StagePlan plan{.end_layer = model_.layers,
                              .shard = model::make_shard(model_, 0, 1, model_.vocab)};
  stage_ = std::make_unique<model::Stage>(
      device, model_, plan, nullptr, [](const std::string&) { return false; }, DType::f32,
      std::function<void(model::ParameterSet&)>(), extension_.get());
  train::restore(stage_->parameters(), reader);
  extension_->weights_changed();
}

std::unique_ptr<model::StageExtension> Subject::make_method(const std::string& adapter,
                                                            const std::string& moc,
                                                            const std::string& origin) {
  if (!moc.empty()) {
    moc_spec_ = methods::moc::parse_spec(moc, origin);
    auto method = std::make_unique<methods::moc::MixtureOfControl>(
        moc_spec_, model_, std::vector<std::int64_t>{model_.layers}, nullptr, nullptr);
    moc_ = method.get();
    return method;
  }
  if (adapter.empty()) return nullptr;
  const auto spec = methods::adapters::parse_adapter_config(adapter, origin);
  using methods::adapters::Kind;
  require(spec.kind != Kind::loreft && spec.kind != Kind::molex, ErrorKind::config, origin, ": ",
          methods::adapters::to_string(spec.kind),
          " changes states behind whole blocks, and here sites are compared, each by what it adds "
          "to the residual stream");
  return methods::adapters::make_extension(methods::adapters::resolve(spec, model_), model_);
}

// Without a tape: the pass counts as evaluation, whatever is recorded of its blocks later.
Passage Subject::begin(const data::MicroBatch& batch) {
  Passage passage;
  passage.pass.rows = train::upload(device(), batch).tokens;
  if (moc_ != nullptr)
    passage.groups = methods::routing::make_groups(device(), *passage.pass.rows,
                                                   moc_spec_.eval_scope, moc_spec_.tokens);
  passage.pass.state = extension_->begin_pass(passage.pass, {});
  return passage;
}

Tensor Subject::embed(Passage& passage) const {
  return stage_->embed(passage.pass).value;
}

Var Subject::run(Passage& passage, Tape* tape, const Var& x, const SiteHook& hook) {
  extension_->hook = hook;
  if (moc_ != nullptr)
    moc_->observe = [&passage](std::int64_t layer, BlockSite site, const Decision& decision) {
      passage.decisions[site_index(layer, site)] = std::make_shared<Decision>(decision);
    };
  passage.pass.tape = tape;
  const Var result = stage_->run_blocks(passage.pass, x);
  passage.pass.tape = nullptr;
  extension_->hook = nullptr;
  return result;
}

// y with its control at a site, the weights being constants.
Var Subject::mix(Tape* tape, const SiteCall& call, const Var& x, const Var& y, double alpha,
                 const Groups& groups, std::shared_ptr<const Decision> decision) const {
  return methods::moc::control(tape, y, x, moc_->experts(call.site), static_cast<int>(call.layer),
                               static_cast<float>(alpha), groups, {std::move(decision), Var()});
}

Var Subject::control_held(const Passage& passage, const SiteCall& call) const {
  if (call.inner == nullptr || moc_ == nullptr) return call.apply();
  return mix(call.tape, call, call.state, call.sum, moc_spec_.alpha, *passage.groups,
             passage.decisions.at(call.index()));
}

Tensor Subject::own(const Passage& passage, const SiteCall& call, const Tensor& x) const {
  const Var zero(Tensor::zeros(device(), x.shape()));
  if (moc_ == nullptr) return call.inner->apply(passage.pass, nullptr, Var(x), zero).value;
  return mix(nullptr, call, Var(x), zero, 1, *passage.groups, passage.decisions.at(call.index()))
      .value;
}

Tensor Subject::routed(const Passage& passage, const SiteCall& call, const Tensor& x) const {
  const Var zero(Tensor::zeros(device(), x.shape()));
  return mix(nullptr, call, Var(x), zero, 0, *passage.groups, passage.decisions.at(call.index()))
      .value;
}

Tensor Subject::chosen(const Passage& passage, const SiteCall& call, const Tensor& x,
                       std::size_t choice) const {
  auto alone = std::make_shared<Decision>();
  for (const methods::moc::Choice& all : passage.decisions.at(call.index())->groups)
    alone->groups.push_back({{all.experts.at(choice)}, {1.0f}, {}});
  const Var zero(Tensor::zeros(device(), x.shape()));
  return mix(nullptr, call, Var(x), zero, 0, *passage.groups, alone).value;
}

}  // namespace fathom::diagnose::moc
