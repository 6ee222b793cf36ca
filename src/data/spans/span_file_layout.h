#pragma once

#include <cstdint>

// Names inside a span file, shared by its writer and its reader (data_tools/FORMAT.md).
namespace fathom::data::spans::layout {

inline constexpr const char* kLengths = "lengths";
inline constexpr const char* kPromptLengths = "prompt_lengths";
inline constexpr const char* kChecksums = "ids_crc32";
inline constexpr const char* kWordOffsets = "word_offsets";
inline constexpr const char* kWords = "words";
inline constexpr const char* kPhraseOffsets = "phrase_offsets";
inline constexpr const char* kPhrases = "phrases";
inline constexpr const char* kKinds = "phrase_kinds";

inline constexpr const char* kFormat = "format";
inline constexpr const char* kFormatName = "fathom.spans";
inline constexpr const char* kVersion = "format_version";
inline constexpr std::int64_t kVersionNumber = 1;
inline constexpr const char* kDefinition = "definition";
inline constexpr const char* kExtractor = "extractor";
inline constexpr const char* kModel = "model";
inline constexpr const char* kModelSha256 = "model_sha256";
inline constexpr const char* kTokenizer = "tokenizer_fingerprint";
inline constexpr const char* kTokens = "tokens_fingerprint";

}  // namespace fathom::data::spans::layout
