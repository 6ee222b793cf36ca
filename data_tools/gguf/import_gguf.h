#pragma once

#include <filesystem>

#include "core/dtype.h"

namespace fathom::data_tools {

/// Turns a GGUF file of the `llama` architecture into a Hugging Face folder: model.safetensors,
/// tokenizer.json, tokenizer_config.json (with the chat template), generation_config.json and,
/// last, config.json. Quantised weights (Q8_0, Q4_0, Q4_1) are expanded; `dtype` is f32 or bf16.
/// The reordering of query and key rows that llama.cpp makes for its rotary kernel is undone. The
/// tokenizer must be a byte-level BPE.
/// Throws Error(io) on unreadable or unwritable files, Error(data) naming what is malformed,
/// missing or not supported (other architectures, experts, rope scaling), and Error(config) for a
/// folder that has a config.json.
void import_gguf(const std::filesystem::path& gguf, const std::filesystem::path& out_dir,
                 DType dtype);

}  // namespace fathom::data_tools
