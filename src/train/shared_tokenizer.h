#pragma once

#include <filesystem>

#include "train/config.h"

namespace fathom::train {

/// Where the student's tokenizer lies.
std::filesystem::path tokenizer_folder(const TrainConfig& config);

/// A divergence compares probabilities id by id: throws Error(data) naming the first id to which
/// the teacher's tokenizer gives another text than the student's. Ids that only one of them has pad
/// a head, and are left to loss.vocab. Nothing is compared without a teacher or where a folder has
/// no tokenizer. Throws what Tokenizer::load throws.
void require_shared_tokenizer(const TrainConfig& config);

}  // namespace fathom::train
