#pragma once

#include <memory>

#include "methods/adapters/adapter_spec.h"
#include "model/seams.h"
#include "model/spec.h"

namespace fathom::methods::adapters {

/// The adapter of one stage; `spec` as resolve() returns it. Null for Kind::none.
std::unique_ptr<model::StageExtension> make_extension(const AdapterSpec& spec,
                                                      const model::ModelSpec& model);

}  // namespace fathom::methods::adapters
