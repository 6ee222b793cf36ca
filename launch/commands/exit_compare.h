#pragma once

#include "generate/generator.h"
#include "train/engine.h"

namespace fathom::launch {

/// Times decoding that leaves late layers early beside decoding through all of them: after a run of
/// each to warm up, three pairs in turns, on the same prompts. Logs the rates of each pair, prompts
/// left out, and the median of their ratios beside what the weights that are read allow at most.
/// Texts may differ, and so their lengths: what is compared is the time of a token. `options` have
/// early exits. Collective over the grid.
void compare_with_all_layers(train::Engine& engine, const generate::GeneratorOptions& options,
                             const std::vector<generate::Prompt>& prompts);

}  // namespace fathom::launch
