#pragma once

#include <nlohmann/json_fwd.hpp>

#include "data_tools/gguf/gguf_file.h"

namespace fathom::data_tools {

/// tokenizer.json of the byte-level BPE that a GGUF file carries. Throws Error(data) naming the key
/// of what is malformed or not supported.
nlohmann::ordered_json tokenizer_json(const GgufFile& file);

/// tokenizer_config.json: special tokens, longest input, chat template.
nlohmann::ordered_json tokenizer_config_json(const GgufFile& file);

}  // namespace fathom::data_tools
