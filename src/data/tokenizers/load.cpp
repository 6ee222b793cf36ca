#include "core/error.h"
#include "data/tokenizers/formats.h"

namespace fathom::data {
namespace {

namespace fs = std::filesystem;

TokenizerSpec read_folder(const fs::path& folder) {
  const TokenizerConfig config = read_tokenizer_config(folder);
  if (fs::exists(folder / "tokenizer.json")) {
    return read_tokenizer_json(folder / "tokenizer.json", config);
  }
  if (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt")) {
    return read_vocab_and_merges(folder, config);
  }
  if (fs::exists(folder / "tokenizer.model")) {
    return read_sentencepiece(folder / "tokenizer.model", config);
  }
  fail(ErrorKind::io, folder.string(),
       ": holds no tokenizer; looked for tokenizer.json, vocab.json with merges.txt, and "
       "tokenizer.model");
}

TokenizerSpec read_file(const fs::path& path) {
  const fs::path folder = path.parent_path();
  const std::string name = path.filename().string();
  const TokenizerConfig config = read_tokenizer_config(folder);
  if (path.extension() == ".model") return read_sentencepiece(path, config);
  if (name == "vocab.json" || name == "merges.txt") return read_vocab_and_merges(folder, config);
  require(path.extension() == ".json", ErrorKind::data, path.string(),
          ": is no tokenizer; expected tokenizer.json, vocab.json, merges.txt or tokenizer.model");
  return read_tokenizer_json(path, config);
}

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::load(const fs::path& path) {
  require(fs::exists(path), ErrorKind::io, path.string(), ": no such tokenizer file or folder");
  return make_tokenizer(fs::is_directory(path) ? read_folder(path) : read_file(path));
}

}  // namespace fathom::data
