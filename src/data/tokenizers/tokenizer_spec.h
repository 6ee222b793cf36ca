#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/added_tokens.h"
#include "data/tokenizers/bpe.h"
#include "data/tokenizers/decoder.h"
#include "data/tokenizers/normalizer.h"
#include "data/tokenizers/pre_tokenizer.h"

namespace fathom::data {

/// Whether spaces at the ends of a token are left out of its offsets, as RoBERTa does.
struct OffsetTrim {
  bool enabled = false;
  bool prefix_space = false;  ///< the first token's first space was put there by the tokenizer
};

/// Everything that a tokenizer is made of, in the one form that all file formats are read into.
struct TokenizerSpec {
  std::string where;  ///< the file, for messages
  BpeSpec model;
  std::vector<AddedToken> added;
  NormalizerList normalizers;
  PreTokenizerList pre_tokenizers;
  DecoderList decoders;
  OffsetTrim trim;
  std::vector<std::int32_t> prefix;
  std::vector<std::int32_t> suffix;
  std::optional<std::int32_t> bos;
  std::optional<std::int32_t> eos;
  std::string chat_template;
};

/// Id of a token string, added tokens included.
std::optional<std::int32_t> find_token(const TokenizerSpec& spec, std::string_view token);

/// Throws Error(data) if the parts contradict each other.
std::unique_ptr<Tokenizer> make_tokenizer(TokenizerSpec spec);

}  // namespace fathom::data
