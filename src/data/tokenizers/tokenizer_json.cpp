#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/tokenizers/components.h"
#include "data/tokenizers/formats.h"

namespace fathom::data {
namespace {

void read_merges(const JsonNode& node, const std::string& where, BpeSpec& model) {
  if (!node.value().is_array()) node.refuse("must be an array");
  for (const auto& merge : node.value()) {
    const auto at = [&] { return str(where, ": merge ", model.merges.size()); };
    if (merge.is_string()) {
      model.merges.push_back(parse_merge(merge.get_ref<const std::string&>(), at()));
      continue;
    }
    const bool pair =
        merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    require(pair, ErrorKind::data, at(), " must be \"left right\" or [left, right], not ",
            merge.dump());
    model.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
  }
}

/// Options that would change the ids and that Fathom does not have.
void refuse_options(const JsonNode& node) {
  const auto dropout = node.find("dropout");
  if (dropout && dropout->value() != 0) dropout->refuse("must be 0: encoding is deterministic");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto affix = node.find(key);
    if (affix && !affix->string().empty()) affix->refuse("is not supported");
  }
}

void read_model(const JsonNode& node, TokenizerSpec& spec) {
  const auto type = node.find("type");
  if (type && type->string() != "BPE") type->refuse("is not supported; known is BPE");
  refuse_options(node);
  BpeSpec& model = spec.model;
  read_vocab(node.at("vocab"), spec.where, model.vocab);
  read_merges(node.at("merges"), spec.where, model);
  if (const auto unk = node.find("unk_token")) model.unk_token = unk->string();
  model.fuse_unk = node.flag("fuse_unk", false);
  model.byte_fallback = node.flag("byte_fallback", false);
  model.ignore_merges = node.flag("ignore_merges", false);
}

}  // namespace

void read_vocab(const JsonNode& node, const std::string& where, TokenTable& vocab) {
  if (!node.value().is_object()) node.refuse("must be an object of token: id");
  for (const auto& [token, id] : node.value().items()) {
    require(id.is_number_integer(), ErrorKind::data, where, ": token '", token, "' has the id ",
            id.dump(), ", which is no integer");
    vocab.add(token, id.get<std::int64_t>(), where);
  }
  require(vocab.size() > 0, ErrorKind::data, where, ": the vocabulary is empty");
}

std::pair<std::string, std::string> parse_merge(const std::string& line, const std::string& where) {
  const std::size_t space = line.find(' ');
  const bool two = space != std::string::npos && space > 0 && space + 1 < line.size() &&
                   line.find(' ', space + 1) == std::string::npos;
  require(two, ErrorKind::data, where, " must be two tokens with a space between, not '", line,
          "'");
  return {line.substr(0, space), line.substr(space + 1)};
}

TokenizerSpec read_tokenizer_json(const std::filesystem::path& path,
                                  const TokenizerConfig& config) {
  TokenizerSpec spec;
  spec.where = path.string();
  const nlohmann::json json = read_json_object(path);
  const JsonNode root(json, spec.where + ": ");
  read_model(root.at("model"), spec);
  if (const auto node = root.find("normalizer")) read_normalizer(*node, spec);
  if (const auto node = root.find("pre_tokenizer")) read_pre_tokenizer(*node, spec);
  read_decoder(root.at("decoder"), spec);
  if (const auto node = root.find("post_processor")) read_post_processor(*node, spec);
  if (const auto node = root.find("added_tokens")) {
    for (const JsonNode& item : node->items()) {
      AddedToken token = read_added_token(item);
      if (token.content.empty()) item.refuse("has an empty content");
      const std::int64_t id = item.at("id").integer();
      if (id < 0 || id > (1 << 24)) item.at("id").refuse("is no token id");
      token.id = static_cast<std::int32_t>(id);
      spec.added.push_back(std::move(token));
    }
  }
  apply_config(config, spec, false);
  return spec;
}

}  // namespace fathom::data
