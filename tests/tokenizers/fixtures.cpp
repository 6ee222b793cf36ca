#include "fixtures.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

#include "data/tokenizers/byte_alphabet.h"

namespace fathom::data::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The byte symbols in the order of their spelling, then what each merge makes: how the
/// vocabularies of GPT-2 and Qwen2 are numbered.
json vocab_of_merges(const fs::path& merges) {
  std::vector<std::string> symbols;
  for (int byte = 0; byte < 256; ++byte) {
    symbols.push_back(token_of_byte(static_cast<unsigned char>(byte)));
  }
  std::sort(symbols.begin(), symbols.end());
  json vocab = json::object();
  for (const std::string& symbol : symbols) vocab[symbol] = vocab.size();
  for (const auto& [left, right] : read_merges(merges)) {
    if (!vocab.contains(left + right)) vocab[left + right] = vocab.size();
  }
  return vocab;
}

json gpt2_vocab() {
  json vocab = vocab_of_merges(data_file("gpt2/merges.txt"));
  vocab["<|endoftext|>"] = vocab.size();
  return vocab;
}

void write_smollm2(const ScratchFolder& folder) {
  json tokenizer = read_json(data_file("smollm2/tokenizer_start.json"));
  json& vocab = tokenizer["model"]["vocab"];
  json& merges = tokenizer["model"]["merges"];
  for (const auto& [left, right] : read_merges(data_file("smollm2/merges.txt"))) {
    if (!vocab.contains(left + right)) vocab[left + right] = vocab.size();
    merges.push_back({left, right});
  }
  folder.write("tokenizer.json", tokenizer);
  folder.copy("smollm2/tokenizer_config.json", "tokenizer_config.json");
}

}  // namespace

ScratchFolder::ScratchFolder() {
  static std::atomic<int> count = 0;
  path_ = fs::temp_directory_path() / str("fathom_tokenizers_", ::getpid(), '_', count++);
  fs::create_directories(path_);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path ScratchFolder::write(const std::string& name, std::string_view text) const {
  std::ofstream(path_ / name, std::ios::binary) << text;
  return path_ / name;
}

fs::path ScratchFolder::write(const std::string& name, const json& value) const {
  return write(name, std::string_view(value.dump()));
}

void ScratchFolder::copy(const std::string& from, const std::string& name) const {
  fs::copy_file(data_file(from), path_ / name);
}

fs::path data_file(const std::string& name) {
  return fs::path(FATHOM_TEST_DATA) / "tokenizers" / name;
}

std::string read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

json read_json(const fs::path& path) {
  return json::parse(read_bytes(path));
}

std::vector<std::pair<std::string, std::string>> read_merges(const fs::path& path) {
  std::vector<std::pair<std::string, std::string>> merges;
  std::istringstream lines(read_bytes(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#version")) continue;
    const std::size_t space = line.find(' ');
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

void write_family(const ScratchFolder& folder, const std::string& family) {
  if (family == "gpt2") {
    folder.write("vocab.json", gpt2_vocab());
    folder.copy("gpt2/merges.txt", "merges.txt");
  } else if (family == "opt") {
    folder.copy("opt/vocab.json", "vocab.json");
    folder.copy("gpt2/merges.txt", "merges.txt");
    folder.copy("opt/tokenizer_config.json", "tokenizer_config.json");
  } else if (family == "roberta") {
    folder.copy("opt/vocab.json", "vocab.json");
    folder.copy("gpt2/merges.txt", "merges.txt");
    folder.write("tokenizer_config.json", json{{"tokenizer_class", "RobertaTokenizerFast"}});
  } else if (family == "qwen2") {
    folder.write("vocab.json", vocab_of_merges(data_file("qwen2/merges.txt")));
    folder.copy("qwen2/merges.txt", "merges.txt");
    folder.copy("qwen2/tokenizer_config.json", "tokenizer_config.json");
  } else if (family == "smollm2") {
    write_smollm2(folder);
  } else if (family == "tinyllama") {
    folder.copy("tinyllama/tokenizer.json", "tokenizer.json");
    folder.copy("tinyllama/tokenizer_config.json", "tokenizer_config.json");
  } else {
    folder.copy(family + "/tokenizer.model", "tokenizer.model");
    folder.copy(family + "/tokenizer_config.json", "tokenizer_config.json");
  }
}

json gpt2_as_tokenizer_json() {
  json merges = json::array();
  for (const auto& [left, right] : read_merges(data_file("gpt2/merges.txt"))) {
    merges.push_back(left + " " + right);
  }
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  json post = byte_level;
  post["trim_offsets"] = false;
  return {{"version", "1.0"},
          {"added_tokens", {{{"id", 50256}, {"content", "<|endoftext|>"}, {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", post},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", gpt2_vocab()}, {"merges", merges}}}};
}

json tiny_tokenizer_json() {
  return json::parse(R"({
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true}],
    "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    "pre_tokenizer": null,
    "post_processor": null,
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "Fuse"}]},
    "model": {"type": "BPE", "unk_token": "<unk>",
      "vocab": {"<unk>": 0, "a": 1, "b": 2, "▁": 3, "ab": 4, "▁ab": 5},
      "merges": ["a b", ["▁", "ab"]]}})");
}

std::vector<std::int64_t> in_code_points(std::string_view text, const Encoding& encoding) {
  // before[i]: characters that begin before byte i.
  std::vector<std::int64_t> before(text.size() + 1, 0);
  for (std::size_t i = 0; i < text.size(); ++i) {
    before[i + 1] = before[i] + ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80);
  }
  const auto at_character = [&](std::size_t i) {
    return i == text.size() || (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
  };
  std::vector<std::int64_t> flat;
  for (const ByteRange& range : encoding.offsets) {
    EXPECT_TRUE(at_character(range.begin) && at_character(range.end)) << text;
    flat.push_back(before[range.begin]);
    flat.push_back(before[range.end]);
  }
  return flat;
}

Error load_error(const fs::path& path) {
  try {
    Tokenizer::load(path);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << path << " was accepted";
  return Error(ErrorKind::internal, "none");
}

}  // namespace fathom::data::test
