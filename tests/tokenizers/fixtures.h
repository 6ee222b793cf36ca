#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "data/tokenizers/tokenizer.h"

namespace fathom::data::test {

/// A folder that is removed at the end of the test.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view text) const;
  std::filesystem::path write(const std::string& name, const nlohmann::json& json) const;
  /// Copies a file of tests/data/tokenizers.
  void copy(const std::string& from, const std::string& name) const;

 private:
  std::filesystem::path path_;
};

std::filesystem::path data_file(const std::string& name);
std::string read_bytes(const std::filesystem::path& path);
nlohmann::json read_json(const std::filesystem::path& path);

/// Merges of a merges.txt as pairs of strings.
std::vector<std::pair<std::string, std::string>> read_merges(const std::filesystem::path& path);

/// Fills the folder with the files of a family: "gpt2", "opt", "roberta", "qwen2", "smollm2",
/// "tinyllama" or "mistral".
void write_family(const ScratchFolder& folder, const std::string& family);

/// GPT-2 as one tokenizer.json, written out here from the format's definition.
nlohmann::json gpt2_as_tokenizer_json();

/// A tiny valid tokenizer.json (LLaMA form) for tests that break one thing in it.
nlohmann::json tiny_tokenizer_json();

/// Offsets flattened, in code points of the text instead of bytes.
std::vector<std::int64_t> in_code_points(std::string_view text, const Encoding& encoding);

/// The error that loading `path` throws; a failure of the test if it throws none.
Error load_error(const std::filesystem::path& path);

}  // namespace fathom::data::test
