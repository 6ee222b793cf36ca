#pragma once

#include <memory>

#include "methods/adapters/adapter_spec.h"
#include "model/stage.h"

namespace fathom::methods::adapters {

/// Parallel Control at one site of a block: alpha B A x, A [rank, hidden], B [hidden, rank], of the
/// un-normalised residual stream x. Null where the spec has none. Every tensor rank holds and
/// computes the whole of it.
std::unique_ptr<model::ResidualControl> make_parallel_control(const AdapterSpec& spec,
                                                              const std::string& block,
                                                              model::BlockSite site,
                                                              std::int64_t hidden, bool first_rank,
                                                              model::ParameterSet& parameters);

}  // namespace fathom::methods::adapters
