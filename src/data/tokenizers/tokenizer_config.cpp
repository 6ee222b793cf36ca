#include "data/tokenizers/tokenizer_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"

namespace fathom::data {
namespace {

constexpr const char* kNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

/// Special tokens that a tokenizer class has when its files do not say otherwise.
std::map<std::string, std::string> tokens_of_class(const std::string& name) {
  const std::string end = "<|endoftext|>";
  if (name == "GPT2Tokenizer") {
    return {{"bos_token", end}, {"eos_token", end}, {"unk_token", end}};
  }
  if (name == "Qwen2Tokenizer") {
    return {{"eos_token", end}, {"unk_token", end}, {"pad_token", end}};
  }
  if (name == "LlamaTokenizer") {
    return {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
  }
  if (name == "RobertaTokenizer") {
    return {{"bos_token", "<s>"},    {"eos_token", "</s>"}, {"unk_token", "<unk>"},
            {"sep_token", "</s>"},   {"cls_token", "<s>"},  {"pad_token", "<pad>"},
            {"mask_token", "<mask>"}};
  }
  return {};
}

std::string class_of_model_type(const std::string& type) {
  if (type == "gpt2" || type == "opt") return "GPT2Tokenizer";
  if (type == "qwen2") return "Qwen2Tokenizer";
  if (type == "roberta") return "RobertaTokenizer";
  return "";
}

AddedToken special_token(const JsonNode& node) {
  AddedToken token;
  if (node.value().is_string()) {
    token.content = node.string();
  } else {
    token = read_added_token(node);
  }
  token.special = true;
  return token;
}

void read_extra(const JsonNode& node, TokenizerConfig& config) {
  if (node.value().is_array()) {
    for (const JsonNode& item : node.items()) config.extra.push_back(special_token(item));
    return;
  }
  if (!node.value().is_object()) node.refuse("must be an array or an object");
  for (const auto& [key, value] : node.value().items()) {
    config.extra.push_back(special_token(JsonNode(value, node.path() + "." + key)));
  }
}

void read_numbered(const JsonNode& node, TokenizerConfig& config) {
  if (!node.value().is_object()) node.refuse("must be an object");
  for (const auto& [key, value] : node.value().items()) {
    const bool digits =
        !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) node.refuse("has the key '" + key + "', which is no token id");
    AddedToken token = read_added_token(JsonNode(value, node.path() + "." + key));
    token.id = std::stoi(key);
    config.numbered.push_back(token);
  }
  std::sort(config.numbered.begin(), config.numbered.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
}

/// One template, or several with names, of which "default" is meant.
std::string read_chat_template(const JsonNode& node) {
  if (!node.value().is_array()) return node.string();
  for (const JsonNode& item : node.items()) {
    if (item.at("name").string() == "default") return item.at("template").string();
  }
  node.refuse("has no template named \"default\"");
}

void read_config(const JsonNode& root, TokenizerConfig& config) {
  config.tokenizer_class = root.text("tokenizer_class", "");
  if (config.tokenizer_class.ends_with("Fast") &&
      config.tokenizer_class != "PreTrainedTokenizerFast") {
    config.tokenizer_class.resize(config.tokenizer_class.size() - 4);
  }
  for (const char* name : kNames) {
    if (const auto node = root.find(name)) {
      config.named[name] = special_token(*node);
    } else if (root.value().contains(name)) {
      config.named[name] = std::nullopt;
    }
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (const auto node = root.find(key)) read_extra(*node, config);
  }
  if (const auto node = root.find("added_tokens_decoder")) read_numbered(*node, config);
  if (const auto node = root.find("add_bos_token")) config.add_bos_token = node->boolean();
  if (const auto node = root.find("add_eos_token")) config.add_eos_token = node->boolean();
  config.add_prefix_space = root.flag("add_prefix_space", false);
  config.legacy = root.flag("legacy", true);
  if (const auto node = root.find("chat_template")) {
    config.chat_template = read_chat_template(*node);
  }
}

AddedToken* find_added(TokenizerSpec& spec, const std::string& content) {
  for (AddedToken& token : spec.added) {
    if (token.content == content) return &token;
  }
  return nullptr;
}

std::int32_t next_free_id(const TokenizerSpec& spec) {
  std::int32_t next = spec.model.vocab.size();
  for (const AddedToken& token : spec.added) next = std::max(next, token.id + 1);
  return next;
}

void add_special(AddedToken token, TokenizerSpec& spec) {
  if (token.content.empty()) return;
  if (AddedToken* known = find_added(spec, token.content)) {
    known->special = true;
    return;
  }
  token.id = spec.model.vocab.find(token.content).value_or(next_free_id(spec));
  spec.added.push_back(std::move(token));
}

/// The config's tokens by name, completed from its class.
std::map<std::string, AddedToken> named_tokens(const TokenizerConfig& config,
                                               const TokenizerSpec& spec, bool invent) {
  std::map<std::string, AddedToken> tokens;
  for (const auto& [name, token] : config.named) {
    if (token) tokens[name] = *token;
  }
  for (const auto& [name, content] : tokens_of_class(config.tokenizer_class)) {
    if (config.named.contains(name) || !(invent || find_token(spec, content))) continue;
    AddedToken token;
    token.content = content;
    token.special = true;
    token.lstrip = name == "mask_token";
    tokens[name] = token;
  }
  return tokens;
}

void wrap(std::optional<bool> wanted, std::optional<std::int32_t> id, const char* key,
          const TokenizerConfig& config, std::vector<std::int32_t>& ids) {
  if (!wanted) return;
  require(!*wanted || id, ErrorKind::data, config.where, ": ", key,
          " is true, but there is no such token");
  ids.clear();
  if (*wanted) ids.push_back(*id);
}

}  // namespace

AddedToken read_added_token(const JsonNode& node) {
  AddedToken token;
  token.content = node.at("content").string();
  token.special = node.flag("special", false);
  token.single_word = node.flag("single_word", false);
  token.lstrip = node.flag("lstrip", false);
  token.rstrip = node.flag("rstrip", false);
  token.normalized = node.flag("normalized", !token.special);
  return token;
}

TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder) {
  TokenizerConfig config;
  const auto path = folder / "tokenizer_config.json";
  config.where = path.string();
  if (std::filesystem::exists(path)) {
    const nlohmann::json json = read_json_object(path);
    read_config(JsonNode(json, config.where + ": "), config);
  }
  const auto model = folder / "config.json";
  if (config.tokenizer_class.empty() && std::filesystem::exists(model)) {
    const nlohmann::json json = read_json_object(model);
    const std::string type = JsonNode(json, model.string() + ": ").text("model_type", "");
    config.tokenizer_class = class_of_model_type(type);
  }
  const auto jinja = folder / "chat_template.jinja";
  if (std::filesystem::exists(jinja)) config.chat_template = files::read_text(jinja);
  return config;
}

void apply_config(const TokenizerConfig& config, TokenizerSpec& spec, bool invent) {
  for (const AddedToken& token : config.numbered) {
    if (!find_added(spec, token.content)) spec.added.push_back(token);
  }
  const auto named = named_tokens(config, spec, invent);
  for (const char* name : kNames) {
    const auto token = named.find(name);
    if (token != named.end()) add_special(token->second, spec);
  }
  for (const AddedToken& token : config.extra) add_special(token, spec);

  const auto id_of = [&](const char* name) -> std::optional<std::int32_t> {
    const auto token = named.find(name);
    if (token == named.end()) return std::nullopt;
    return find_token(spec, token->second.content);
  };
  if (const auto id = id_of("bos_token")) spec.bos = id;
  if (const auto id = id_of("eos_token")) spec.eos = id;
  if (config.tokenizer_class == "LlamaTokenizer" || config.tokenizer_class == "GPT2Tokenizer") {
    wrap(config.add_bos_token, spec.bos, "add_bos_token", config, spec.prefix);
    wrap(config.add_eos_token, spec.eos, "add_eos_token", config, spec.suffix);
  }
  spec.chat_template = config.chat_template;
}

}  // namespace fathom::data
