#pragma once

#include <string>
#include <vector>

#include "methods/adapters/adapter_spec.h"
#include "model/spec.h"

namespace fathom::methods::adapters {

/// A linear layer of a block under its published name.
struct Module {
  std::string name;  ///< "model.layers.3.self_attn.q_proj"
  std::int64_t layer = 0, inputs = 0, outputs = 0;
};

/// All of a model's, in the order of the forward pass.
std::vector<Module> linear_modules(const model::ModelSpec& model);

/// Whether the adapter acts on layer `layer` at all.
bool covers_layer(const AdapterSpec& spec, std::int64_t layer);

/// Whether a linear layer gets an adapter.
bool targets(const AdapterSpec& spec, const std::string& module, std::int64_t layer);

/// The spec with its targets written out, checked against the model. Throws Error(config) naming
/// the key for targets that match nothing, layers that do not exist, ranks larger than a layer, and
/// options that the kind does not have. Allocates nothing.
AdapterSpec resolve(AdapterSpec spec, const model::ModelSpec& model);

}  // namespace fathom::methods::adapters
