#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "checkpoints/rectangle.h"
#include "core/dtype.h"
#include "data_tools/gguf/gguf_file.h"

namespace fathom::data_tools {

/// The numbers of a model of the `llama` architecture.
struct LlamaModel {
  std::int64_t layers, hidden, feed_forward, heads, kv_heads, head_dim, context, vocabulary;
  double rope_theta, norm_epsilon;
  bool tied;  ///< the head is the embedding
};

/// Reads and checks the metadata. Throws Error(data) naming a key that is missing, impossible, or
/// asks for something that is not supported.
LlamaModel read_llama_model(const GgufFile& file);

/// One tensor under both names, with the shape that the model asks for. `reordered_heads` is the
/// number of heads whose rows llama.cpp reordered, 0 for none.
struct LlamaTensor {
  std::string gguf_name;
  std::string hf_name;
  checkpoints::Shape shape;
  std::int64_t reordered_heads;
};

/// All tensors that such a model has.
std::vector<LlamaTensor> llama_tensors(const LlamaModel& model);

/// Undoes llama.cpp's order of query and key rows: within a head of width w, its row 2i + p is
/// Hugging Face's row p * w/2 + i.
std::vector<float> restore_head_rows(const std::vector<float>& values, std::int64_t rows,
                                     std::int64_t heads);

/// config.json of LlamaForCausalLM.
nlohmann::json llama_config(const LlamaModel& model, const GgufFile& file, DType dtype);

}  // namespace fathom::data_tools
