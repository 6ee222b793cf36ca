#include "tests/support/small_model.h"

#include <random>

#include "checkpoints/safetensors.h"
#include "core/error.h"
#include "core/files.h"
#include "data/token_file.h"
#include "data/tokenizers/tokenizer.h"
#include "kernels/backend.h"
#include "model/stage.h"
#include "model/weights.h"

namespace fathom::testing {

std::string config_json(const SmallModel& model) {
  return str(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",)",
             R"( "hidden_act": "silu", "rms_norm_eps": 1e-5, "initializer_range": 0.08,)",
             R"( "bos_token_id": 1, "eos_token_id": 2, "dtype": "float32",)",
             R"( "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},)",
             R"( "hidden_size": )", model.hidden, R"(, "intermediate_size": )", model.ffn,
             R"(, "num_hidden_layers": )", model.layers, R"(, "num_attention_heads": )",
             model.heads, R"(, "num_key_value_heads": )", model.kv_heads,
             R"(, "max_position_embeddings": )", model.positions, R"(, "vocab_size": )",
             model.vocab, R"(, "tie_word_embeddings": )", model.tied ? "true" : "false", "}\n");
}

void write_model(const std::filesystem::path& folder, const SmallModel& model, std::uint64_t seed) {
  std::filesystem::create_directories(folder);
  const std::string json = config_json(model);
  files::write_text_atomically(folder / "config.json", json);
  const model::ModelSpec spec = model::parse_config(json, "config.json");
  const auto device = kernels::make_device({.limit_bytes = std::size_t{1} << 30});
  const model::Stage stage(
      *device, spec, {.end_layer = spec.layers, .shard = model::make_shard(spec, 0, 1, spec.vocab)},
      nullptr, [](const std::string&) { return false; }, DType::f32);
  std::vector<checkpoints::SafetensorsPlan> plan;
  for (const model::Parameter& parameter : stage.parameters().parameters()) {
    checkpoints::Shape shape;
    for (int d = 0; d < parameter.shape.dims(); ++d) shape.push_back(parameter.shape[d]);
    plan.push_back({parameter.name, checkpoints::Element::f32, shape});
  }
  const model::RandomWeights weights(seed);
  checkpoints::write_safetensors(
      folder / "model.safetensors", plan,
      [&](const checkpoints::SafetensorsPlan& entry, checkpoints::SafetensorsSink& sink) {
        const model::Parameter& parameter = *stage.parameters().find(entry.name);
        std::vector<float> values(static_cast<std::size_t>(parameter.shape.elements()));
        const std::int64_t rows = parameter.shape[0];
        weights.read(parameter, {.rows = rows, .columns = parameter.shape.elements() / rows},
                     values.data());
        sink.put(values);
      });
}

void write_tokens(const std::filesystem::path& file, int records, int shortest, int longest,
                  std::int32_t vocab, std::uint32_t seed, const std::filesystem::path& tokenizer) {
  data::TokenFileInfo info;
  info.vocab_size = vocab;
  info.eos_id = 2;
  info.template_name = "plain";
  info.tokenizer = info.template_text = "0000000000000000";
  if (!tokenizer.empty()) info.tokenizer = data::Tokenizer::load(tokenizer)->fingerprint();
  data::TokenFileWriter writer(file, info);
  std::minstd_rand random(seed);
  for (int record = 0; record < records; ++record) {
    const int length = shortest + record % (longest - shortest + 1);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
    for (std::int32_t& id : ids)
      id = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(vocab));
    writer.append(ids, static_cast<std::int32_t>(random() % static_cast<unsigned>(length)), record);
  }
  writer.finish(str("seed ", seed));
}

std::filesystem::path shakespeare() {
  return std::filesystem::path(FATHOM_SOURCE_DIR) / "data_tools/samples/shakespeare";
}

void copy_shakespeare(const std::filesystem::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy_file(shakespeare() / name, folder / name);
}

}  // namespace fathom::testing
