#pragma once

#include <filesystem>

#include "data/token_file.h"
#include "train/config.h"

/// Ids mean something only to those who share a tokenizer: student, teacher, and every token file.
namespace fathom::train {

/// Where the student's tokenizer lies.
std::filesystem::path tokenizer_folder(const TrainConfig& config);

/// A divergence compares probabilities id by id: throws Error(data) naming the first id to which
/// the teacher's tokenizer gives another text than the student's. Ids that only one of them has pad
/// a head, and are left to loss.vocab. Nothing is compared where a folder has no tokenizer.
/// `option` is what named the teacher. Throws what Tokenizer::load throws.
void require_shared_tokenizer(const std::filesystem::path& student,
                              const std::filesystem::path& teacher, const char* option);
/// The same of a run; nothing is compared without a teacher.
void require_shared_tokenizer(const TrainConfig& config);

/// A model's tokenizer, as token files are compared with it.
struct ModelTokenizer {
  std::filesystem::path folder = {};
  std::string fingerprint = {};  ///< empty: files of any tokenizer are taken
};

/// The tokenizer in a model's folder. A folder without one is warned of, and takes any file, as all
/// do with `any`. Throws what Tokenizer::load throws.
ModelTokenizer read_model_tokenizer(const std::filesystem::path& folder, bool any);

/// Throws Error(data) naming both unless the file was made with the model's tokenizer.
void require_made_with(const ModelTokenizer& tokenizer, const data::TokenFile& file);

/// Throws Error(data) naming both unless two files were made with the same tokenizer.
void require_same_tokenizer(const data::TokenFile& first, const data::TokenFile& second);

}  // namespace fathom::train
