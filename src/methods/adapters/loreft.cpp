#include "methods/adapters/loreft.h"

#include <algorithm>
#include <cmath>

#include "autograd/adapter_operations.h"
#include "methods/adapters/parameter_names.h"

namespace fathom::methods::adapters {

using autograd::Tape;
using autograd::Var;
using autograd::WeightLayout;

EditedRows edited_rows(const AdapterSpec& spec, const std::vector<autograd::PromptRows>& prompts) {
  EditedRows rows;
  for (const autograd::PromptRows& prompt : prompts) {
    const std::int64_t half = prompt.count / 2;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(spec.prefix, half); ++i)
      rows.prefix.push_back(static_cast<std::int32_t>(prompt.first + i));
    const std::int64_t end = prompt.first + prompt.count;
    for (std::int64_t i = end - std::min<std::int64_t>(spec.suffix, half); i < end; ++i)
      rows.suffix.push_back(static_cast<std::int32_t>(i));
  }
  return rows;
}

namespace {

// Replaces the rows of r [rank, width] by orthonormal ones with the same span, from the first to
// the last (Gram and Schmidt, twice for precision).
void make_orthonormal(std::vector<float>& r, std::size_t rank, const std::string& name) {
  const std::size_t width = r.size() / rank;
  std::vector<double> rows(r.begin(), r.end());
  for (std::size_t i = 0; i < rank; ++i) {
    double* row = rows.data() + i * width;
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t j = 0; j < i; ++j) {
        const double* other = rows.data() + j * width;
        double dot = 0;
        for (std::size_t c = 0; c < width; ++c) dot += row[c] * other[c];
        for (std::size_t c = 0; c < width; ++c) row[c] -= dot * other[c];
      }
    }
    double square = 0;
    for (std::size_t c = 0; c < width; ++c) square += row[c] * row[c];
    require(square > 1e-20, ErrorKind::numeric, name, ": row ", i,
            " of the rotation depends on the rows before it");
    for (std::size_t c = 0; c < width; ++c) row[c] /= std::sqrt(square);
  }
  std::transform(rows.begin(), rows.end(), r.begin(),
                 [](double value) { return static_cast<float>(value); });
}

// One edit: W and b next to each other, and R.
class Edit {
 public:
  Edit(const AdapterSpec& spec, std::string name, std::int64_t hidden, bool first_rank,
       model::ParameterSet& parameters)
      : name_(std::move(name)) {
    const Shape shape{spec.rank, hidden};
    const double bound = 1 / std::sqrt(static_cast<double>(hidden));
    model::PartDeclaration rotation = whole_part(name_ + ".rotation", shape, first_rank);
    rotation.init_std = 1;
    parameters.declare(&rotation_, shape, {std::move(rotation)});
    model::PartDeclaration weight = whole_part(name_ + ".weight", shape, first_rank);
    weight.init_bound = bound;
    parameters.declare(&weight_, shape, {std::move(weight)});
    model::PartDeclaration bias = whole_part(name_ + ".bias", {spec.rank}, first_rank);
    bias.init_bound = bound;
    parameters.declare(&bias_, {spec.rank}, {std::move(bias)});
  }

  Var apply(Tape* tape, const Var& states, const std::vector<std::int32_t>& rows) const {
    if (rows.empty()) return states;
    const Tensor index =
        Tensor::from_host(states.value.device(), {static_cast<std::int64_t>(rows.size())}, rows);
    const Var h = autograd::gather(tape, states, index);
    const Var wanted = autograd::linear(tape, h, weight_, WeightLayout::out_in, bias_);
    const Var present = autograd::linear(tape, h, rotation_, WeightLayout::out_in);
    const Var change = autograd::accumulate_columns(tape, wanted, present, 0, -1.0f);
    const Var delta = autograd::linear(tape, change, rotation_, WeightLayout::in_out);
    return autograd::accumulate_rows(tape, states, delta, index);
  }

  void make_orthonormal() {
    std::vector<float> values = to_host(rotation_.value);
    adapters::make_orthonormal(values, static_cast<std::size_t>(rotation_.value.rows()), name_);
    copy_from_host(rotation_.value, values);
  }

 private:
  std::string name_;
  Var rotation_, weight_, bias_;
};

class Loreft : public LoreftEdit {
 public:
  Loreft(const AdapterSpec& spec, const std::string& block, std::int64_t hidden, bool first_rank,
         model::ParameterSet& parameters)
      : spec_(spec) {
    const std::string name = kAdapterPrefix + block + ".loreft";
    edits_.reserve(2);  // parameters point into it
    edits_.emplace_back(spec, spec.tied ? name : name + ".prefix", hidden, first_rank, parameters);
    if (!spec.tied) edits_.emplace_back(spec, name + ".suffix", hidden, first_rank, parameters);
  }

  Var apply(const model::Pass& pass, Tape* tape, const Var& states) const override {
    EditedRows rows = edited_rows(spec_, pass.rows->prompts);
    if (!spec_.tied)
      return edits_[1].apply(tape, edits_[0].apply(tape, states, rows.prefix), rows.suffix);
    rows.prefix.insert(rows.prefix.end(), rows.suffix.begin(), rows.suffix.end());
    return edits_[0].apply(tape, states, rows.prefix);
  }

  void weights_changed() override {
    for (Edit& edit : edits_) edit.make_orthonormal();
  }

 private:
  AdapterSpec spec_;
  std::vector<Edit> edits_;
};

}  // namespace

std::unique_ptr<LoreftEdit> make_loreft(const AdapterSpec& spec, const std::string& block,
                                        std::int64_t hidden, bool first_rank,
                                        model::ParameterSet& parameters) {
  return std::make_unique<Loreft>(spec, block, hidden, first_rank, parameters);
}

}  // namespace fathom::methods::adapters
