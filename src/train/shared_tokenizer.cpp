#include "train/shared_tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.h"
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

void require_shared_tokenizer(const TrainConfig& config) {
  const std::filesystem::path student = tokenizer_folder(config), teacher = config.teacher.path;
  if (teacher.empty() || student == teacher || !has_tokenizer(student) || !has_tokenizer(teacher))
    return;
  const auto ours = data::Tokenizer::load(student), theirs = data::Tokenizer::load(teacher);
  const std::int32_t both = std::min(ours->vocab_size(), theirs->vocab_size());
  for (std::int32_t id = 0; id < both; ++id)
    require(ours->token_bytes(id) == theirs->token_bytes(id), ErrorKind::data,
            "teacher.path = ", teacher.string(), ": its tokenizer is not the student's (",
            student.string(), "): id ", id, " is ", quoted(theirs->token_bytes(id)), " there and ",
            quoted(ours->token_bytes(id)),
            " here; take a teacher that was trained with the same tokenizer");
}

}  // namespace fathom::train
