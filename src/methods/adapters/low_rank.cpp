#include <cmath>

#include "autograd/adapter_operations.h"
#include "comm/differentiable.h"
#include "kernels/columns.h"
#include "methods/adapters/linear_adapters.h"
#include "methods/adapters/parameter_names.h"
#include "methods/adapters/targets.h"

namespace fathom::methods::adapters {

using autograd::Tape;
using autograd::Var;
using autograd::WeightLayout;

std::vector<std::size_t> targeted(const AdapterSpec& spec, const model::LinearSite& site) {
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < site.parts.size(); ++i)
    if (targets(spec, site.parts[i].module, site.layer)) parts.push_back(i);
  return parts;
}

kernels::Dropout adapter_dropout(const model::Pass& pass, const AdapterSpec& spec,
                                 const model::LinearSite& site, std::size_t part) {
  // Sites of the model itself count from 0.
  constexpr std::uint32_t kAdapterSites = 0x40000000;
  const auto number =
      static_cast<std::uint32_t>(site.layer * 8 + site.index) + static_cast<std::uint32_t>(part);
  kernels::Dropout dropout =
      rows_dropout(pass, static_cast<float>(spec.dropout), kAdapterSites + number);
  dropout.first_column = site.first_input;
  return dropout;
}

model::PartDeclaration output_part(const model::LinearSite& site, const model::LinearPart& part,
                                   const std::string& name, std::int64_t columns) {
  model::PartDeclaration declared;
  declared.name = kAdapterPrefix + part.module + "." + name;
  declared.shape = columns > 0 ? Shape{part.outputs, columns} : Shape{part.outputs};
  for (const model::OutputRange& range : part.ranges) {
    declared.pieces.push_back({.row = range.begin,
                               .local_row = declared.local_rows,
                               .rows = range.count,
                               .columns = std::max<std::int64_t>(1, columns)});
    declared.local_rows += range.count;
  }
  // Where inputs are divided, every rank has all outputs and sees a partial sum of them.
  declared.sharing = site.divides_outputs ? part.sharing : model::Sharing::tensor;
  declared.owned = part.owned;
  return declared;
}

namespace {

class LowRank : public LinearAdapterPart {
 public:
  LowRank(const AdapterSpec& spec, const model::LinearSite& site,
          const std::vector<std::size_t>& parts, bool first_rank, comm::Communicator* tp,
          model::ParameterSet& parameters)
      : spec_(spec), site_(site), tp_(tp), parts_(parts.size()) {
    for (std::size_t i = 0; i < parts.size(); ++i) parts_[i].index = parts[i];
    declare_a(first_rank, parameters);
    const std::int64_t rank = spec.rank;
    for (Part& part : parts_) {
      const model::LinearPart& of = of_site(part);
      parameters.declare(&part.b, {of.columns(), rank},
                         {output_part(site_, of, "lora_B.weight", rank)});
      if (spec.kind == Kind::dora)
        parameters.declare(&part.magnitude, {of.columns()},
                           {output_part(site_, of, "lora_magnitude_vector", 0)});
    }
  }

  Var apply(const model::Pass& pass, Tape* tape, const Var& x, const Var& y) const override {
    const float scale = static_cast<float>(spec_.scale());
    const auto dropout = [&](const Part& part) {
      return adapter_dropout(pass, spec_, site_, part.index);
    };
    if (spec_.kind == Kind::dora && dropout(parts_.front()).probability > 0) {
      Var z = y;
      for (std::size_t i = 0; i < parts_.size(); ++i)
        z = dropped_dora(tape, x, z, i, dropout(parts_[i]));
      return z;
    }
    std::vector<autograd::LowRankPart> products;
    for (const Part& part : parts_)
      products.push_back({part.b, of_site(part).first_column, dropout(part)});
    Var z = autograd::low_rank_add(tape, y, x, a_, products, scale);
    if (spec_.kind == Kind::dora)
      for (const Part& part : parts_)
        z = autograd::scale_columns(tape, z, of_site(part).first_column, part.magnitude,
                                    part.inverse, part.factor);
    return z;
  }

  // The magnitudes start as the norms of the rows of W: B is zero then.
  void initialise() override {
    if (spec_.kind != Kind::dora) return;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      kernels::square_root(row_squares(i), parts_[i].magnitude.value);
  }

  void weights_changed() override {
    if (spec_.kind != Kind::dora) return;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      const Tensor squares = row_squares(i);
      part.inverse = Tensor::empty(squares.device(), squares.shape());
      part.factor = Tensor::empty(squares.device(), squares.shape());
      kernels::magnitude_factors(part.magnitude.value, squares, part.inverse, part.factor);
    }
  }

 private:
  struct Part {
    std::size_t index = 0;  // in the site
    Var b, magnitude;
    Tensor inverse, factor;  // DoRA: 1 / ||V|| and m / ||V|| by output
  };

  const model::LinearPart& of_site(const Part& part) const { return site_.parts[part.index]; }

  // All A of a matrix lie one below the other, so that its input is multiplied once.
  void declare_a(bool first_rank, model::ParameterSet& parameters) {
    const std::int64_t rank = spec_.rank;
    std::vector<model::PartDeclaration> stacked;
    for (const Part& part : parts_) {
      model::PartDeclaration a =
          whole_part(kAdapterPrefix + of_site(part).module + ".lora_A.weight", {rank, site_.inputs},
                     !site_.divides_outputs || first_rank);
      a.pieces = {{.column = site_.first_input, .rows = rank, .columns = site_.inputs_here}};
      a.sharing = site_.divides_outputs ? model::Sharing::tensor : model::Sharing::none;
      a.init_bound = 1 / std::sqrt(static_cast<double>(site_.inputs));
      stacked.push_back(std::move(a));
    }
    const auto rows = static_cast<std::int64_t>(parts_.size()) * rank;
    parameters.declare(&a_, {rows, site_.inputs_here}, std::move(stacked));
  }

  Tensor rows_of_a(std::size_t i) const {
    return a_.value.slice_rows(static_cast<std::int64_t>(i) * spec_.rank, spec_.rank);
  }

  // The part's own rows of a fused [out, in] matrix; [in, out] ones are never fused.
  Tensor weight_of(const Part& part) const {
    const Tensor& whole = site_.weights->weight.value;
    if (site_.layout == WeightLayout::in_out) return whole;
    return whole.slice_rows(of_site(part).first_column, of_site(part).columns());
  }

  // ||V||^2 by output, V = W + s B A; summed over the ranks that hold other inputs of it.
  Tensor row_squares(std::size_t i) const {
    using kernels::Trans;
    const Part& part = parts_[i];
    const Tensor w = weight_of(part);
    const Tensor v = Tensor::empty(w.device(), w.shape());
    w.dtype() == DType::f32 ? kernels::copy(w, v) : kernels::convert(w, v);
    const Tensor squares = Tensor::empty(w.device(), {of_site(part).columns()});
    const float scale = static_cast<float>(spec_.scale());
    if (site_.layout == WeightLayout::out_in) {
      kernels::gemm(part.b.value, Trans::no, rows_of_a(i), Trans::no, v, scale, 1.0f);
      kernels::row_squares(v, squares);
    } else {
      kernels::gemm(rows_of_a(i), Trans::yes, part.b.value, Trans::yes, v, scale, 1.0f);
      kernels::column_squares(v, squares);
    }
    if (!site_.divides_outputs && tp_ != nullptr)
      comm::all_reduce(*tp_, squares, comm::ReduceOp::sum);
    return squares;
  }

  // y + (c - 1) W x' + c s B A x' with x' = drop(x), one mask for both products.
  Var dropped_dora(Tape* tape, const Var& x, const Var& y, std::size_t i,
                   const kernels::Dropout& dropout) const {
    const Part& part = parts_[i];
    const std::int64_t first = of_site(part).first_column;
    Var a(rows_of_a(i));
    if (a_.slot)
      a.slot = std::make_shared<autograd::GradSlot>(
          a_.slot->grad().slice_rows(static_cast<std::int64_t>(i) * spec_.rank, spec_.rank));
    const Var in = autograd::residual(tape, {}, x, {}, dropout);
    const Var base = autograd::linear(tape, in, Var(weight_of(part)), site_.layout);
    const Var z = autograd::accumulate_columns(tape, y, base, first, -1.0f);
    const Var v = autograd::low_rank_add(tape, base, in, a, {{part.b, 0, {}}},
                                         static_cast<float>(spec_.scale()));
    const Var scaled =
        autograd::scale_columns(tape, v, 0, part.magnitude, part.inverse, part.factor);
    return autograd::accumulate_columns(tape, z, scaled, first, 1.0f);
  }

  AdapterSpec spec_;
  model::LinearSite site_;
  comm::Communicator* tp_;
  Var a_;
  std::vector<Part> parts_;
};

}  // namespace

std::unique_ptr<LinearAdapterPart> make_low_rank(const AdapterSpec& spec,
                                                 const model::LinearSite& site,
                                                 const std::vector<std::size_t>& parts,
                                                 bool first_rank, comm::Communicator* tp,
                                                 model::ParameterSet& parameters) {
  return std::make_unique<LowRank>(spec, site, parts, first_rank, tp, parameters);
}

}  // namespace fathom::methods::adapters
