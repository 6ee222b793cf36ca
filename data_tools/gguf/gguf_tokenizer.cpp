#include "data_tools/gguf/gguf_tokenizer.h"

#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"

namespace fathom::data_tools {
namespace {

using nlohmann::ordered_json;

/// llama.cpp's kinds of tokens.
constexpr std::int64_t kControl = 3, kUserDefined = 4;

ordered_json byte_level(bool add_prefix_space) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", true}};
}

/// How the text is cut before merging, by llama.cpp's name of the rule.
ordered_json pre_tokenizer(const GgufFile& file) {
  const auto rule = file.get<std::string>("tokenizer.ggml.pre");
  if (rule == "gpt-2") return byte_level(false);
  if (rule == "smollm")
    return {
        {"type", "Sequence"},
        {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, byte_level(false)}}};
  fail(ErrorKind::data, "'", file.path().string(), "': tokenizer.ggml.pre is '", rule,
       "'; 'smollm' and 'gpt-2' are supported");
}

void check_kind(const GgufFile& file) {
  const auto model = file.get<std::string>("tokenizer.ggml.model");
  require(model == "gpt2", ErrorKind::data, "'", file.path().string(),
          "': tokenizer.ggml.model is '", model, "'; 'gpt2' (byte-level BPE) is supported");
  for (const char* key : {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token"})
    require(!file.get<bool>(key, false), ErrorKind::data, "'", file.path().string(), "': ", key,
            " is true, which is not supported");
}

ordered_json added_tokens(const GgufFile& file, const std::vector<std::string>& tokens) {
  const auto types = file.get<std::vector<std::int64_t>>("tokenizer.ggml.token_type");
  require(types.size() == tokens.size(), ErrorKind::data, "'", file.path().string(),
          "': ", types.size(), " token types for ", tokens.size(), " tokens");
  ordered_json added = ordered_json::array();
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] != kControl && types[id] != kUserDefined) continue;
    added.push_back({{"id", id},
                     {"content", tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", types[id] == kControl}});
  }
  return added;
}

ordered_json vocabulary(const GgufFile& file, const std::vector<std::string>& tokens) {
  std::set<std::string> known;
  ordered_json::object_t vocab;
  vocab.reserve(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    require(known.insert(tokens[id]).second, ErrorKind::data, "'", file.path().string(),
            "': token ", id, " '", tokens[id], "' occurs twice");
    // An ordered object looks for the key at each insertion; pushing keeps this linear.
    vocab.push_back({tokens[id], id});
  }
  return vocab;
}

ordered_json merge_list(const GgufFile& file) {
  const auto merges = file.get<std::vector<std::string>>("tokenizer.ggml.merges");
  ordered_json list = ordered_json::array();
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto space = merges[i].find(' ');
    require(space != std::string::npos && space > 0 && space + 1 < merges[i].size() &&
                merges[i].find(' ', space + 1) == std::string::npos,
            ErrorKind::data, "'", file.path().string(), "': merge ", i, " '", merges[i],
            "' is not two tokens with a space between");
    list.push_back({merges[i].substr(0, space), merges[i].substr(space + 1)});
  }
  return list;
}

}  // namespace

ordered_json tokenizer_json(const GgufFile& file) {
  check_kind(file);
  const auto tokens = file.get<std::vector<std::string>>("tokenizer.ggml.tokens");
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens(file, tokens)},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer(file)},
          {"post_processor", nullptr},
          {"decoder", byte_level(true)},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocabulary(file, tokens)},
            {"merges", merge_list(file)}}}};
}

ordered_json tokenizer_config_json(const GgufFile& file) {
  const auto tokens = file.get<std::vector<std::string>>("tokenizer.ggml.tokens");
  ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  const std::pair<const char*, const char*> specials[] = {
      {"bos_token", "tokenizer.ggml.bos_token_id"},
      {"eos_token", "tokenizer.ggml.eos_token_id"},
      {"pad_token", "tokenizer.ggml.padding_token_id"},
      {"unk_token", "tokenizer.ggml.unknown_token_id"}};
  for (const auto& [name, key] : specials) {
    if (!file.has(key)) continue;
    const auto id = file.get<std::int64_t>(key);
    require(id >= 0 && id < static_cast<std::int64_t>(tokens.size()), ErrorKind::data, "'",
            file.path().string(), "': ", key, " is ", id, " in a vocabulary of ", tokens.size());
    config[name] = tokens[static_cast<std::size_t>(id)];
  }
  config["clean_up_tokenization_spaces"] = false;
  config["add_prefix_space"] = false;
  config["model_max_length"] = file.get<std::int64_t>("llama.context_length");
  if (file.has("tokenizer.chat_template"))
    config["chat_template"] = file.get<std::string>("tokenizer.chat_template");
  return config;
}

}  // namespace fathom::data_tools
