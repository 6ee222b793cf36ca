#pragma once

#include <span>

#include "data/batch.h"

// What a model that is diagnosed reads.

namespace fathom::diagnose {

/// One text of ids, all attended to and none supervised: a prompt. Throws Error(data) if there is
/// none, or for an id outside [0, vocab).
data::MicroBatch text_batch(std::span<const std::int32_t> ids, std::int64_t vocab);

/// At most so many tokens, one at least, from the front: whole sequences while they fit, or else
/// the head of the first.
data::MicroBatch front_of(const data::MicroBatch& batch, std::int64_t tokens);

}  // namespace fathom::diagnose
