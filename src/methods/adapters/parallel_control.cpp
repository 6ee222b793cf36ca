#include "methods/adapters/parallel_control.h"

#include <cmath>

#include "autograd/adapter_operations.h"
#include "methods/adapters/parameter_names.h"

namespace fathom::methods::adapters {
namespace {

using autograd::Var;

class ParallelControl : public model::ResidualControl {
 public:
  ParallelControl(const AdapterSpec& spec, const std::string& name, std::int64_t hidden,
                  bool first_rank, model::ParameterSet& parameters)
      : scale_(static_cast<float>(spec.control_scale)) {
    const Shape shape_a{spec.rank, hidden}, shape_b{hidden, spec.rank};
    model::PartDeclaration a = whole_part(name + ".A", shape_a, first_rank);
    a.init_bound = 1 / std::sqrt(static_cast<double>(hidden));
    parameters.declare(&a_, shape_a, {std::move(a)});
    parameters.declare(&b_, shape_b, {whole_part(name + ".B", shape_b, first_rank)});
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

std::unique_ptr<model::ResidualControl> make_parallel_control(const AdapterSpec& spec,
                                                              const std::string& block,
                                                              model::BlockSite site,
                                                              std::int64_t hidden, bool first_rank,
                                                              model::ParameterSet& parameters) {
  const bool attention = site == model::BlockSite::attention;
  if (spec.sites == (attention ? Sites::mlp : Sites::attention)) return nullptr;
  const std::string name =
      kAdapterPrefix + block + (attention ? ".control.attention" : ".control.mlp");
  return std::make_unique<ParallelControl>(spec, name, hidden, first_rank, parameters);
}

}  // namespace fathom::methods::adapters
