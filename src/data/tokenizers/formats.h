#pragma once

#include <filesystem>

#include "data/tokenizers/tokenizer_config.h"
#include "data/tokenizers/tokenizer_spec.h"

namespace fathom::data {

/// The three forms in which tokenizers come, each with the config of its folder. All throw
/// Error(io) for a file that cannot be read and Error(data) for one that cannot be understood.

TokenizerSpec read_tokenizer_json(const std::filesystem::path& path, const TokenizerConfig& config);

/// vocab.json and merges.txt say nothing of the pipeline: the class in the config decides it, and
/// GPT-2's is taken where there is none.
TokenizerSpec read_vocab_and_merges(const std::filesystem::path& folder,
                                    const TokenizerConfig& config);

/// A SentencePiece model with byte-pair encoding, of the LLaMA form.
TokenizerSpec read_sentencepiece(const std::filesystem::path& path, const TokenizerConfig& config);

/// Fills the vocabulary from an object of token -> id.
void read_vocab(const JsonNode& node, const std::string& where, TokenTable& vocab);

/// One merge from "left right". Throws Error(data), naming `where`, for another form.
std::pair<std::string, std::string> parse_merge(const std::string& line, const std::string& where);

}  // namespace fathom::data
