#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/json_node.h"
#include "data/tokenizers/tokenizer_spec.h"

namespace fathom::data {

/// What stands beside the vocabulary: tokenizer_config.json, chat_template.jinja, and config.json's
/// model type where the former does not name a class.
struct TokenizerConfig {
  std::string where;
  std::string tokenizer_class;  ///< without "Fast"; empty if no file names one
  /// "bos_token" and so on. A name without a token was set to null; an absent name was left to the
  /// class.
  std::map<std::string, std::optional<AddedToken>> named;
  std::vector<AddedToken> extra;     ///< more special tokens, without ids
  std::vector<AddedToken> numbered;  ///< added_tokens_decoder
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  bool add_prefix_space = false;
  bool legacy = true;
  std::string chat_template;
};

/// Reads what there is in the folder; all of it may be missing. Throws Error(data) for values of
/// the wrong kind.
TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

/// An entry of "added_tokens" or a token of tokenizer_config.json, without its id.
AddedToken read_added_token(const JsonNode& node);

/// Adds the config's tokens to the spec as transformers does (a special token outside the
/// vocabulary gets the next free id), then sets bos, eos, the chat template and, for the classes
/// that follow add_bos_token and add_eos_token, prefix and suffix. Tokens that only the class
/// implies are added if `invent`, else taken where they exist.
void apply_config(const TokenizerConfig& config, TokenizerSpec& spec, bool invent);

}  // namespace fathom::data
