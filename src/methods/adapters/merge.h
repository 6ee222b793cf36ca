#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/operations.h"
#include "methods/adapters/adapter_spec.h"
#include "methods/adapters/targets.h"

namespace fathom::methods::adapters {

/// The whole of an adapter parameter by name, row-major.
using ReadTensor = std::function<std::vector<float>(const std::string& parameter)>;

/// Whether the adapter can become a part of the weights: what acts on states cannot.
inline bool mergeable(const AdapterSpec& spec) {
  return spec.on_linear_layers() && spec.kind != Kind::molex;
}

/// Puts a targeted module's adapter into its weight, [outputs, inputs] or, for GPT-2, [inputs,
/// outputs]: W + s B A, rows of that scaled by m / norm for DoRA, W + diag(b) B diag(d) A for VeRA.
/// Sums are in double and rounded once.
void merge(const AdapterSpec& spec, const Module& module, autograd::WeightLayout layout,
           const ReadTensor& read, std::vector<float>& weight);

}  // namespace fathom::methods::adapters
