#pragma once

#include <memory>

#include "methods/adapters/adapter_spec.h"
#include "model/stage.h"

namespace fathom::methods::adapters {

/// The name of matrix 'A' or 'B' of a site's control.
std::string control_name(const model::ModelSpec& model, std::int64_t layer, model::BlockSite site,
                         char matrix);

/// Parallel Control at one site of a block: alpha B A x, A [rank, hidden], B [hidden, rank], of the
/// un-normalised residual stream x. Null where the spec has none. Every tensor rank holds and
/// computes the whole of it.
std::unique_ptr<model::ResidualControl> make_parallel_control(
    const AdapterSpec& spec, const model::ModelSpec& model, std::int64_t layer,
    model::BlockSite site, bool first_rank, model::ParameterSet& parameters);

}  // namespace fathom::methods::adapters
