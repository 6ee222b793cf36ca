#pragma once

#include <string>

#include "methods/adapters/adapter_spec.h"
#include "model/spec.h"

namespace fathom::methods::adapters {

/// Reads an adapter_config.json: peft's of LoRA, DoRA and VeRA, and ours of the kinds that peft
/// does not know. `origin` names it in errors. Throws Error(data) naming the key for anything
/// malformed, and for every option that changes the arithmetic and does not exist here.
AdapterSpec parse_adapter_config(const std::string& json, const std::string& origin);

/// The inverse, as peft reads it; `base` is the base model's folder or name.
std::string adapter_config(const AdapterSpec& spec, const model::ModelSpec& model,
                           const std::string& base);

}  // namespace fathom::methods::adapters
