#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "data/tokenizers/components.h"
#include "data/tokenizers/formats.h"

namespace fathom::data {
namespace {

void read_merges(const std::filesystem::path& path, BpeSpec& model) {
  const std::string text = files::read_text(path);
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line.starts_with("#version")) continue;
    model.merges.push_back(parse_merge(line, str(path.string(), ": line ", number)));
  }
}

}  // namespace

TokenizerSpec read_vocab_and_merges(const std::filesystem::path& folder,
                                    const TokenizerConfig& config) {
  TokenizerConfig known = config;
  if (known.tokenizer_class.empty()) known.tokenizer_class = "GPT2Tokenizer";
  const bool qwen = known.tokenizer_class == "Qwen2Tokenizer";
  const bool roberta = known.tokenizer_class == "RobertaTokenizer";
  require(qwen || roberta || known.tokenizer_class == "GPT2Tokenizer", ErrorKind::data,
          config.where, ": tokenizer_class ", known.tokenizer_class,
          " needs a tokenizer.json; vocab.json and merges.txt are enough for GPT2Tokenizer, "
          "Qwen2Tokenizer and RobertaTokenizer");

  TokenizerSpec spec;
  const auto vocab = folder / "vocab.json";
  spec.where = vocab.string();
  spec.model.byte_level = true;
  const nlohmann::json json = read_json_object(vocab);
  read_vocab(JsonNode(json, spec.where + ": "), spec.where, spec.model.vocab);
  read_merges(folder / "merges.txt", spec.model);

  if (qwen) spec.normalizers.push_back(make_nfc());
  if (config.add_prefix_space) spec.pre_tokenizers.push_back(make_prefix_space());
  spec.pre_tokenizers.push_back(make_split(Regex(qwen ? kQwen2Pattern : kGpt2Pattern, "")));
  spec.decoders.push_back(make_byte_level_decoder());
  apply_config(known, spec, true);
  if (roberta) {
    spec.trim = {true, config.add_prefix_space};
    spec.prefix = {spec.bos.value()};
    spec.suffix = {spec.eos.value()};
  }
  return spec;
}

}  // namespace fathom::data
