#pragma once

#include <memory>
#include <string>

#include "methods/adapters/adapter_spec.h"
#include "model/seams.h"
#include "model/spec.h"

namespace fathom::methods::adapters {

/// The gate of a layer, [hidden, layers].
std::string molex_gate_name(const model::ModelSpec& model, std::int64_t layer);

/// Mixture of layer experts (Teo and Nguyen, 2025), over a model with LoRA: with z the input of
/// layer t and u_l layer l as a whole, what leaves layer t is alpha u_t(z) + (1 - alpha) u_l(z).
/// Layer l is the one that layer t's gate scores best at most tokens: of a micro-batch in training,
/// of a sequence in evaluation, of its prompt in decoding. Gates learn from the balance term alone,
/// routing::balance_of by gate, the mean over gates and then over the step's supervised
/// micro-batches. A chosen layer drops the same elements as in its own place. For one stage: a
/// layer may run any other.
std::unique_ptr<model::StageExtension> make_layer_mixture(const AdapterSpec& spec,
                                                          const model::ModelSpec& model);

}  // namespace fathom::methods::adapters
