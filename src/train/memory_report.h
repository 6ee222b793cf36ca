#pragma once

#include <string>

#include "train/engine.h"

namespace fathom::train {

/// For people: what the last step's tapes kept for the backward pass, by operation and rank (the
/// largest micro-batch of each), and every parameter of the student with its shape, whether it is
/// trained, and who owns it. On rank 0; empty elsewhere. Collective over the world.
std::string memory_report(Engine& engine);

}  // namespace fathom::train
