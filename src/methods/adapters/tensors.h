#pragma once

#include <string>
#include <vector>

#include "core/shape.h"
#include "methods/adapters/adapter_spec.h"
#include "model/spec.h"

namespace fathom::methods::adapters {

/// A parameter of an adapter over the whole model.
struct AdapterTensor {
  std::string name;  ///< "method.adapter.model.layers.0.self_attn.q_proj.lora_A.weight"
  Shape shape;
  std::int64_t layer = -1;  ///< -1: shared by all
  bool trained = true;
};

/// All parameters of a resolved spec, in the order of the forward pass.
std::vector<AdapterTensor> tensors(const AdapterSpec& spec, const model::ModelSpec& model);

/// The name in an adapter folder: "base_model.model." instead of "method.adapter.", except for
/// VeRA's projections, "base_model.vera_A" and "base_model.vera_B".
std::string stored_name(const std::string& parameter);

}  // namespace fathom::methods::adapters
