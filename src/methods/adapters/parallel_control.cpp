#include "methods/adapters/parallel_control.h"

#include <cmath>

#include "autograd/adapter_operations.h"
#include "methods/adapters/parameter_names.h"
#include "model/family.h"

namespace fathom::methods::adapters {
namespace {

using autograd::Var;

class ParallelControl : public model::ResidualControl {
 public:
  ParallelControl(const AdapterSpec& spec, const model::ModelSpec& model, std::int64_t layer,
                  model::BlockSite site, bool first_rank, model::ParameterSet& parameters)
      : scale_(static_cast<float>(spec.control_scale)) {
    const std::int64_t hidden = model.hidden;
    const Shape shape_a{spec.rank, hidden}, shape_b{hidden, spec.rank};
    const auto part = [&](char matrix, const Shape& shape) {
      return whole_part(control_name(model, layer, site, matrix), shape, first_rank);
    };
    model::PartDeclaration a = part('A', shape_a);
    a.init_bound = 1 / std::sqrt(static_cast<double>(hidden));
    parameters.declare(&a_, shape_a, {std::move(a)});
    parameters.declare(&b_, shape_b, {part('B', shape_b)});
  }

  Var apply(const model::Pass&, autograd::Tape* tape, const Var& state,
            const Var& sum) const override {
    return autograd::low_rank_add(tape, sum, state, a_, {{b_, 0, {}}}, scale_);
  }

 private:
  float scale_;
  Var a_, b_;
};

}  // namespace

std::string control_name(const model::ModelSpec& model, std::int64_t layer, model::BlockSite site,
                         char matrix) {
  const char* place = site == model::BlockSite::attention ? "control.attention." : "control.mlp.";
  return kAdapterPrefix +
         model::layer_name(model::names_of(model.family), layer, std::string(place) + matrix);
}

std::unique_ptr<model::ResidualControl> make_parallel_control(
    const AdapterSpec& spec, const model::ModelSpec& model, std::int64_t layer,
    model::BlockSite site, bool first_rank, model::ParameterSet& parameters) {
  const bool attention = site == model::BlockSite::attention;
  if (spec.sites == (attention ? Sites::mlp : Sites::attention)) return nullptr;
  return std::make_unique<ParallelControl>(spec, model, layer, site, first_rank, parameters);
}

}  // namespace fathom::methods::adapters
