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

/// What becomes of a target that matches no linear layer of the layers that get an adapter.
enum class Unmatched {
  refuse,  ///< the user's own words: a slip of the pen
  drop,    ///< of a published folder, which may be for models with more kinds of layers
};

/// The spec with its targets written out, checked against the model. Throws Error(config) naming
/// the key if no target matches (with Unmatched::refuse: if one does not), for layers that do not
/// exist and for ranks larger than a layer. Allocates nothing.
AdapterSpec resolve(AdapterSpec spec, const model::ModelSpec& model,
                    Unmatched unmatched = Unmatched::refuse);

/// Targets that peft's loader understands whatever the layers: as they are, or, where a list has
/// entries that peft knows only alone or without layers, the full names of all targeted modules.
struct PortableTargets {
  std::vector<std::string> targets;
  bool names_layers = false;  ///< the names are those of the layers already
};
PortableTargets portable_targets(const AdapterSpec& spec, const model::ModelSpec& model);

}  // namespace fathom::methods::adapters
