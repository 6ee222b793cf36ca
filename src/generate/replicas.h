#pragma once

#include <vector>

#include "generate/generator.h"

namespace fathom::generate {

/// Continues prompts with all data-parallel replicas of a model: each takes a block of them, and
/// every rank gets all continuations, in the order of the prompts. What a prompt is continued with
/// does not depend on the block that it is in, up to rounding. Callbacks tell of the own block.
/// Collective over the whole grid, with
/// the same prompts on every rank; errors as in Generator::generate.
std::vector<Continuation> generate_over_replicas(Generator& generator, comm::ProcessGrid& grid,
                                                 const std::vector<Prompt>& prompts,
                                                 const TokenCallback& on_token = {},
                                                 const EndCallback& on_end = {});

}  // namespace fathom::generate
