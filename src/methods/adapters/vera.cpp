#include "autograd/adapter_operations.h"
#include "methods/adapters/linear_adapters.h"
#include "methods/adapters/parameter_names.h"

namespace fathom::methods::adapters {
namespace {

using autograd::Var;

class Vera : public LinearAdapterPart {
 public:
  Vera(const AdapterSpec& spec, const model::LinearSite& site,
       const std::vector<std::size_t>& parts, bool first_rank, const Var& a, const Var& b,
       model::ParameterSet& parameters)
      : spec_(spec), site_(site), a_(a), b_(b), parts_(parts.size()) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      Part& part = parts_[i];
      part.index = parts[i];
      const model::LinearPart& of = site_.parts[part.index];
      model::PartDeclaration d =
          whole_part(kAdapterPrefix + of.module + ".vera_lambda_d", {spec.rank}, first_rank);
      d.sharing = model::Sharing::tensor;
      d.init_value = spec.d_initial;
      parameters.declare(&part.lambda_d, {spec.rank}, {std::move(d)});
      parameters.declare(&part.lambda_b, {of.columns()},
                         {output_part(site_, of, "vera_lambda_b", 0)});
    }
  }

  Var apply(const model::Pass& pass, autograd::Tape* tape, const Var& x,
            const Var& y) const override {
    // Every layer takes the leading columns of A and the leading rows of B.
    const Tensor a = a_.value.slice_columns(site_.first_input, site_.inputs_here);
    Var z = y;
    for (const Part& part : parts_) {
      const model::LinearPart& of = site_.parts[part.index];
      std::vector<autograd::ProjectedRange> ranges;
      std::int64_t column = of.first_column;
      for (const model::OutputRange& range : of.ranges) {
        ranges.push_back({b_.value.slice_rows(range.begin, range.count), column});
        column += range.count;
      }
      z = autograd::projected_add(tape, z, x, a, part.lambda_d, ranges, part.lambda_b,
                                  adapter_dropout(pass, spec_, site_, part.index));
    }
    return z;
  }

 private:
  struct Part {
    std::size_t index = 0;  // in the site
    Var lambda_d, lambda_b;
  };

  AdapterSpec spec_;
  model::LinearSite site_;
  const Var& a_;
  const Var& b_;
  std::vector<Part> parts_;
};

}  // namespace

std::unique_ptr<LinearAdapterPart> make_vera(const AdapterSpec& spec, const model::LinearSite& site,
                                             const std::vector<std::size_t>& parts, bool first_rank,
                                             const Var& a, const Var& b,
                                             model::ParameterSet& parameters) {
  return std::make_unique<Vera>(spec, site, parts, first_rank, a, b, parameters);
}

}  // namespace fathom::methods::adapters
