#include "train/shared_tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/log.h"
#include "data/tokenizers/tokenizer.h"

namespace fathom::train {
namespace {

bool has_tokenizer(const std::filesystem::path& folder) {
  return std::ranges::any_of(
      std::array{"tokenizer.json", "vocab.json", "tokenizer.model"},
      [&](const char* name) { return std::filesystem::exists(folder / name); });
}

// As a reader tells texts apart: quoted, with control characters and broken UTF-8 written out.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::filesystem::path tokenizer_folder(const TrainConfig& config) {
  if (config.model.init == Init::random)
    return std::filesystem::path(config.model.config).parent_path();
  return config.model.init == Init::teacher_layers ? config.teacher.path : config.model.path;
}

void require_shared_tokenizer(const std::filesystem::path& student,
                              const std::filesystem::path& teacher, const char* option) {
  if (student == teacher || !has_tokenizer(student) || !has_tokenizer(teacher)) return;
  const auto ours = data::Tokenizer::load(student), theirs = data::Tokenizer::load(teacher);
  const std::int32_t both = std::min(ours->vocab_size(), theirs->vocab_size());
  for (std::int32_t id = 0; id < both; ++id)
    require(ours->token_bytes(id) == theirs->token_bytes(id), ErrorKind::data, option, " = ",
            teacher.string(), ": its tokenizer is not the student's (", student.string(), "): id ",
            id, " is ", quoted(theirs->token_bytes(id)), " there and ",
            quoted(ours->token_bytes(id)),
            " here; take a teacher that was trained with the same tokenizer");
}

void require_shared_tokenizer(const TrainConfig& config) {
  if (!config.teacher.path.empty())
    require_shared_tokenizer(tokenizer_folder(config), config.teacher.path, "teacher.path");
}

ModelTokenizer read_model_tokenizer(const std::filesystem::path& folder, bool any) {
  if (any) return {.folder = folder};
  if (has_tokenizer(folder))
    return {.folder = folder, .fingerprint = data::Tokenizer::load(folder)->fingerprint()};
  log_warn(folder.string(),
           ": has no tokenizer, so nothing tells whether token files were made with the model's");
  return {.folder = folder};
}

void require_made_with(const ModelTokenizer& tokenizer, const data::TokenFile& file) {
  const std::string& own = file.info().tokenizer;
  require(tokenizer.fingerprint.empty() || own == tokenizer.fingerprint, ErrorKind::data,
          file.path().string(), ": made with the tokenizer ", own, ", the model's in ",
          tokenizer.folder.string(), " is ", tokenizer.fingerprint,
          "; tokenize the text with it, or let any tokenizer pass (data.any_tokenizer, "
          "--any-tokenizer) if both give the same ids");
}

void require_same_tokenizer(const data::TokenFile& first, const data::TokenFile& second) {
  require(first.info().tokenizer == second.info().tokenizer, ErrorKind::data,
          second.path().string(), ": made with the tokenizer ", second.info().tokenizer, ", ",
          first.path().string(), " with ", first.info().tokenizer,
          "; tokenize both texts with the model's own tokenizer");
}

}  // namespace fathom::train
