#include "data_tools/gguf/import_gguf.h"

#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/safetensors.h"
#include "core/error.h"
#include "core/files.h"
#include "data_tools/gguf/gguf_tokenizer.h"
#include "data_tools/gguf/llama_model.h"

namespace fathom::data_tools {
namespace {

/// The file must hold exactly the model's tensors in the model's shapes: one that nobody asks for
/// would change the result if it meant anything.
void check_tensors(const GgufFile& file, const std::vector<LlamaTensor>& wanted) {
  std::set<std::string> names;
  for (const LlamaTensor& tensor : wanted) {
    names.insert(tensor.gguf_name);
    const auto found = file.tensors().find(tensor.gguf_name);
    require(found != file.tensors().end(), ErrorKind::data, "'", file.path().string(),
            "' has no tensor '", tensor.gguf_name, "'");
    require(found->second.shape == tensor.shape, ErrorKind::data, "'", file.path().string(),
            "': tensor '", tensor.gguf_name, "' has shape ",
            checkpoints::to_string(found->second.shape), "; the metadata asks for ",
            checkpoints::to_string(tensor.shape));
  }
  for (const auto& [name, tensor] : file.tensors())
    require(names.contains(name), ErrorKind::data, "'", file.path().string(), "': tensor '", name,
            "' is not part of a llama model");
}

void write_weights(const GgufFile& file, const std::vector<LlamaTensor>& tensors,
                   const std::filesystem::path& folder, DType dtype) {
  std::map<std::string, const LlamaTensor*> by_name;
  std::vector<checkpoints::SafetensorsPlan> plan;
  for (const LlamaTensor& tensor : tensors) {
    by_name[tensor.hf_name] = &tensor;
    plan.push_back({tensor.hf_name, checkpoints::to_element(dtype), tensor.shape});
  }
  const auto fill = [&](const checkpoints::SafetensorsPlan& planned,
                        checkpoints::SafetensorsSink& sink) {
    const LlamaTensor& tensor = *by_name.at(planned.name);
    std::vector<float> values = dequantise(file.tensors().at(tensor.gguf_name));
    if (tensor.reordered_heads > 0)
      values = restore_head_rows(values, tensor.shape[0], tensor.reordered_heads);
    sink.put(values);
  };
  checkpoints::write_safetensors_folder(folder, plan, fill);
}

template <typename Json>
void write_json(const std::filesystem::path& path, const Json& content, int indent) {
  try {
    files::write_text_atomically(path, content.dump(indent) + "\n");
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::data, "cannot write '", path.string(), "': ", error.what());
  }
}

}  // namespace

void import_gguf(const std::filesystem::path& gguf, const std::filesystem::path& out_dir,
                 DType dtype) {
  FATHOM_CHECK(dtype != DType::i32, "weights are f32 or bf16");
  // Written last: a folder without it is no model, and an interrupted import is simply done again.
  const std::filesystem::path config_path = out_dir / "config.json";
  require(!std::filesystem::exists(config_path), ErrorKind::config, config_path.string(),
          " exists already: a model is there; name another folder");
  const GgufFile file(gguf);
  const LlamaModel model = read_llama_model(file);
  const auto tensors = llama_tensors(model);
  check_tensors(file, tensors);
  const auto tokenizer = tokenizer_json(file);
  const auto tokenizer_config = tokenizer_config_json(file);
  const auto config = llama_config(model, file, dtype);

  std::filesystem::create_directories(out_dir);
  write_weights(file, tensors, out_dir, dtype);
  write_json(out_dir / "tokenizer.json", tokenizer, -1);
  write_json(out_dir / "tokenizer_config.json", tokenizer_config, 2);
  nlohmann::json generation = nlohmann::json::object();
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (config.contains(key)) generation[key] = config[key];
  write_json(out_dir / "generation_config.json", generation, 2);
  write_json(config_path, config, 2);
}

}  // namespace fathom::data_tools
