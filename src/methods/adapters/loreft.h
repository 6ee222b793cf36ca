#pragma once

#include <memory>

#include "methods/adapters/adapter_spec.h"
#include "model/stage.h"

namespace fathom::methods::adapters {

/// A state edit that keeps a rotation orthonormal.
class LoreftEdit : public model::StateEdit {
 public:
  virtual void weights_changed() = 0;
};

/// LoReFT behind one block (Wu et al., 2024, equation 2): h + R^T (W h + b - R h) at the first
/// `prefix` and the last `suffix` positions of each prompt, of a short prompt at most half of it at
/// each end. R [rank, hidden] has orthonormal rows: after each update it is replaced by the
/// orthonormal factor of its rows, signs kept.
std::unique_ptr<LoreftEdit> make_loreft(const AdapterSpec& spec, const std::string& block,
                                        std::int64_t hidden, bool first_rank,
                                        model::ParameterSet& parameters);

/// The rows of the prompts that are edited: the first ones, then the last ones.
struct EditedRows {
  std::vector<std::int32_t> prefix, suffix;
};
EditedRows edited_rows(const AdapterSpec& spec, const std::vector<autograd::PromptRows>& prompts);

}  // namespace fathom::methods::adapters
