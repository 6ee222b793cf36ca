#pragma once

#include <string>

#include "core/parameter_names.h"
#include "model/parameters.h"

namespace fathom::methods::adapters {

/// Adapter parameters are named "method.adapter." + what peft calls them behind
/// "base_model.model.".
inline const std::string kAdapterPrefix = std::string(kMethodPrefix) + "adapter.";

/// VeRA's shared projections.
inline const std::string kVeraA = kAdapterPrefix + "vera_A", kVeraB = kAdapterPrefix + "vera_B";

inline bool is_adapter_parameter(const std::string& name) {
  return name.compare(0, kAdapterPrefix.size(), kAdapterPrefix) == 0;
}

using model::whole_part;

}  // namespace fathom::methods::adapters
