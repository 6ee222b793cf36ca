#include "methods/adapters/merge.h"

#include <cmath>

#include "core/error.h"
#include "methods/adapters/parameter_names.h"

namespace fathom::methods::adapters {
namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// B A in factors: the change of output o is the sum over k of left(o, k) times row k of A.
struct Product {
  std::vector<float> a, b, row_scale, column_scale;  // scales empty: ones
  std::int64_t rank = 0, a_width = 0;
  double scale = 1;

  double left(std::int64_t o, std::int64_t k) const {
    double value = scale * b[at(o * rank + k)];
    if (!row_scale.empty()) value *= row_scale[at(o)];
    if (!column_scale.empty()) value *= column_scale[at(k)];
    return value;
  }
};

Product read_product(const AdapterSpec& spec, const Module& module, const ReadTensor& read) {
  const std::string name = kAdapterPrefix + module.name;
  Product product;
  product.rank = spec.rank;
  if (spec.kind == Kind::vera) {
    product.a = read(kVeraA);
    product.b = read(kVeraB);
    product.row_scale = read(name + ".vera_lambda_b");
    product.column_scale = read(name + ".vera_lambda_d");
    product.a_width = static_cast<std::int64_t>(product.a.size()) / spec.rank;
  } else {
    product.a = read(name + ".lora_A.weight");
    product.b = read(name + ".lora_B.weight");
    product.a_width = module.inputs;
    product.scale = spec.scale();
  }
  return product;
}

}  // namespace

void merge(const AdapterSpec& spec, const Module& module, autograd::WeightLayout layout,
           const ReadTensor& read, std::vector<float>& weight) {
  FATHOM_CHECK(mergeable(spec), to_string(spec.kind), " does not act on weights");
  FATHOM_CHECK(static_cast<std::int64_t>(weight.size()) == module.inputs * module.outputs,
               module.name, ": ", weight.size(), " elements");
  const Product product = read_product(spec, module, read);
  std::vector<float> magnitude;
  if (spec.kind == Kind::dora)
    magnitude = read(kAdapterPrefix + module.name + ".lora_magnitude_vector");
  const bool out_in = layout == autograd::WeightLayout::out_in;
  const std::int64_t out_step = out_in ? module.inputs : 1, in_step = out_in ? 1 : module.outputs;
  for (std::int64_t o = 0; o < module.outputs; ++o) {
    float* w = weight.data() + o * out_step;
    std::vector<double> row(at(module.inputs));
    for (std::int64_t i = 0; i < module.inputs; ++i) row[at(i)] = w[i * in_step];
    for (std::int64_t k = 0; k < product.rank; ++k) {
      const double left = product.left(o, k);
      const float* a = product.a.data() + k * product.a_width;
      for (std::int64_t i = 0; i < module.inputs; ++i) row[at(i)] += left * a[i];
    }
    double factor = 1;
    if (!magnitude.empty()) {
      double square = 0;
      for (const double value : row) square += value * value;
      factor = magnitude[at(o)] / std::sqrt(square);
    }
    for (std::int64_t i = 0; i < module.inputs; ++i)
      w[i * in_step] = static_cast<float>(factor * row[at(i)]);
  }
}

}  // namespace fathom::methods::adapters
