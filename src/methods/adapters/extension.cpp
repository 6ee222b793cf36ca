#include "methods/adapters/extension.h"

#include <algorithm>
#include <cmath>

#include "methods/adapters/linear_adapters.h"
#include "methods/adapters/loreft.h"
#include "methods/adapters/molex.h"
#include "methods/adapters/parallel_control.h"
#include "methods/adapters/parameter_names.h"
#include "methods/adapters/targets.h"
#include "model/family.h"

namespace fathom::methods::adapters {
namespace {

using autograd::Var;

class Adapters : public model::StageExtension {
 public:
  Adapters(const AdapterSpec& spec, const model::ModelSpec& model) : spec_(spec), model_(model) {}

  void begin(Device&, const model::StagePlan& plan, comm::Communicator* tp,
             model::ParameterSet& parameters) override {
    tp_ = tp;
    first_rank_ = plan.shard.rank == 0;
    if (spec_.kind == Kind::vera) declare_projections(plan, parameters);
  }

  std::unique_ptr<model::LinearAdapter> adapt(const model::LinearSite& site,
                                              model::ParameterSet& parameters) override {
    if (!spec_.on_linear_layers()) return nullptr;
    const std::vector<std::size_t> parts = targeted(spec_, site);
    if (parts.empty()) return nullptr;
    auto adapter = spec_.kind == Kind::vera
                       ? make_vera(spec_, site, parts, first_rank_, vera_a_, vera_b_, parameters)
                       : make_low_rank(spec_, site, parts, first_rank_, tp_, parameters);
    linear_.push_back(adapter.get());
    return adapter;
  }

  std::unique_ptr<model::ResidualControl> control(std::int64_t layer, model::BlockSite site,
                                                  model::ParameterSet& parameters) override {
    if (spec_.kind != Kind::parallel_control || !covers_layer(spec_, layer)) return nullptr;
    return make_parallel_control(spec_, model_, layer, site, first_rank_, parameters);
  }

  std::unique_ptr<model::StateEdit> edit(std::int64_t layer,
                                         model::ParameterSet& parameters) override {
    if (spec_.kind != Kind::loreft || !covers_layer(spec_, layer)) return nullptr;
    auto made = make_loreft(spec_, block_name(layer), model_.hidden, first_rank_, parameters);
    edits_.push_back(made.get());
    return made;
  }

  void initialise() override {
    for (LinearAdapterPart* adapter : linear_) adapter->initialise();
  }
  void weights_changed() override {
    for (LinearAdapterPart* adapter : linear_) adapter->weights_changed();
    for (LoreftEdit* edit : edits_) edit->weights_changed();
  }

 private:
  std::string block_name(std::int64_t layer) const {
    const std::string name = model::layer_name(model::names_of(model_.family), layer, "");
    return name.substr(0, name.size() - 1);
  }

  // Every rank of every stage holds both projections whole; they are never trained.
  void declare_projections(const model::StagePlan& plan, model::ParameterSet& parameters) {
    std::int64_t inputs = 0, outputs = 0;
    for (const Module& module : linear_modules(model_)) {
      if (!targets(spec_, module.name, module.layer)) continue;
      inputs = std::max(inputs, module.inputs);
      outputs = std::max(outputs, module.outputs);
    }
    const auto declare = [&](Var& var, const std::string& name, Shape shape, std::int64_t fan_in) {
      model::PartDeclaration part = whole_part(name, shape, plan.has_embedding && first_rank_);
      part.frozen = true;
      part.init_bound = std::sqrt(6.0 / static_cast<double>(fan_in));
      parameters.declare(&var, shape, {std::move(part)});
    };
    declare(vera_a_, kVeraA, {spec_.rank, inputs}, inputs);
    declare(vera_b_, kVeraB, {outputs, spec_.rank}, spec_.rank);
  }

  AdapterSpec spec_;
  model::ModelSpec model_;
  comm::Communicator* tp_ = nullptr;
  bool first_rank_ = true;
  Var vera_a_, vera_b_;
  std::vector<LinearAdapterPart*> linear_;
  std::vector<LoreftEdit*> edits_;
};

}  // namespace

std::unique_ptr<model::StageExtension> make_extension(const AdapterSpec& spec,
                                                      const model::ModelSpec& model) {
  if (spec.kind == Kind::none) return nullptr;
  if (spec.kind == Kind::molex) return make_layer_mixture(spec, model);
  return std::make_unique<Adapters>(spec, model);
}

}  // namespace fathom::methods::adapters
