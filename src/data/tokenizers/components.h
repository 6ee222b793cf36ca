#pragma once

#include "data/tokenizers/json_node.h"
#include "data/tokenizers/tokenizer_spec.h"

namespace fathom::data {

/// GPT-2's division of text into words.
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Qwen2's: contractions in any case, single digits, line ends with what precedes them.
inline constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

/// These read one component of a tokenizer.json (the value of "normalizer" and so on) into the
/// spec. Throw Error(data), naming file and member, for a component or an option that Fathom does
/// not have: the ids would be wrong.
void read_normalizer(const JsonNode& node, TokenizerSpec& spec);
void read_pre_tokenizer(const JsonNode& node, TokenizerSpec& spec);
void read_decoder(const JsonNode& node, TokenizerSpec& spec);
/// Sets prefix, suffix and offset trimming.
void read_post_processor(const JsonNode& node, TokenizerSpec& spec);

/// What SentencePiece BPE models of the LLaMA form need around the merges: `legacy` puts "▁" in
/// front of each stretch of text, the other form only at the beginning of the text.
void add_sentencepiece_components(TokenizerSpec& spec, bool dummy_prefix, bool legacy);

}  // namespace fathom::data
