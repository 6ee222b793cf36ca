#pragma once

#include <string>

#include "model/spec.h"

namespace fathom::model {

/// The values of a spec that decide which parameters a model has and what it computes of them, one
/// "\n  name value" each: equal texts for models that compute alike. What only new weights,
/// generation or other programs read (initializer_range, special tokens, config_json) is left out.
std::string identity_text(const ModelSpec& spec);

/// "\n  name was A, is B" for each of these values in which two specs differ; empty if they compute
/// alike.
std::string differences(const ModelSpec& was, const ModelSpec& is);

}  // namespace fathom::model
