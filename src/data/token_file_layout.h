#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/token_file.h"

// Names inside a token file, shared by its writer and its reader (data_tools/FORMAT.md).
namespace fathom::data::layout {

inline constexpr const char* kIds = "ids";
inline constexpr const char* kOffsets = "offsets";
inline constexpr const char* kPromptLengths = "prompt_lengths";
inline constexpr const char* kSources = "sources";

inline constexpr const char* kFormat = "format";
inline constexpr const char* kFormatName = "fathom.tokens";
inline constexpr const char* kVersion = "format_version";
inline constexpr std::int64_t kVersionNumber = 1;
inline constexpr const char* kVocabSize = "vocab_size";
inline constexpr const char* kEosId = "eos_id";
inline constexpr const char* kBlock = "block";
inline constexpr const char* kTemplateName = "template";
inline constexpr const char* kTokenizer = "tokenizer_fingerprint";
inline constexpr const char* kTemplateText = "template_fingerprint";
inline constexpr const char* kSource = "source_fingerprint";
inline constexpr const char* kContent = "fingerprint";

/// Fingerprint of a whole file: a hash over the attributes and over the hash of each array.
std::string content_fingerprint(const TokenFileInfo& info, const std::string& ids_hash,
                                std::span<const std::int64_t> offsets,
                                std::span<const std::int32_t> prompt_lengths,
                                std::span<const std::int64_t> sources);

}  // namespace fathom::data::layout
