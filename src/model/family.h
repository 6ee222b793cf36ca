#pragma once

#include <set>
#include <string>
#include <vector>

#include "autograd/operations.h"
#include "model/spec.h"

namespace fathom::model {

/// Hugging Face names of a family's parameters. Names inside a layer follow `layer` + index + ".".
/// Where several names stand for one projection they are parts of one fused matrix, in this order.
struct FamilyNames {
  const char* embedding;
  const char* positions;
  const char* project_in;
  const char* project_out;
  const char* final_norm;
  const char* head;
  const char* layer;
  const char* attention_norm;
  const char* mlp_norm;
  std::vector<const char*> qkv;
  const char* attention_out;
  std::vector<const char*> mlp_in;
  const char* mlp_out;
  autograd::WeightLayout layout;
  /// Prefix that some published files leave out of every name ("transformer." of GPT-2).
  const char* optional_prefix;
};

const FamilyNames& names_of(Family family);

/// "model.layers." + layer + "." + part.
std::string layer_name(const FamilyNames& names, std::int64_t layer, const std::string& part);

/// The names of a model's parameters in the order of the forward pass. Those of one group are parts
/// of one fused tensor, which is trained as a whole or not at all.
std::vector<std::vector<std::string>> parameter_groups(const ModelSpec& spec);

/// Names of all parameters of a model; a tied head has none of its own.
std::set<std::string> parameter_names(const ModelSpec& spec);

}  // namespace fathom::model
