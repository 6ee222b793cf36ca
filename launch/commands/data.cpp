#include <iostream>

#include "checkpoints/safetensors.h"
#include "core/files.h"
#include "core/log.h"
#include "data_tools/gguf/import_gguf.h"
#include "data_tools/text/tokenize.h"
#include "launch/commands/commands.h"
#include "launch/commands/new_folder.h"
#include "launch/options/data_commands.h"
#include "model/family.h"
#include "train/hf_weights.h"

namespace fathom::launch {
namespace {

data_tools::TokenizeOptions tokenize_options(const options::TokenizeRequest& request) {
  data_tools::TokenizeOptions result;
  result.inputs = {request.input};
  result.output = request.output;
  result.form = request.form;
  result.template_name = request.prompt_template;
  if (!request.delimiter.empty()) result.delimiter = request.delimiter;
  result.block = request.block;
  result.context = request.context;
  result.overlong = request.overlong;
  result.eval_output = request.eval_output;
  result.eval_first = request.eval_first;
  result.eval_fraction = request.eval_fraction;
  result.seed = static_cast<std::uint64_t>(request.seed);
  return result;
}

std::vector<std::int64_t> kept_layers(const train::LayerChoice& choice, std::int64_t layers) {
  std::vector<std::int64_t> kept;
  const int every = choice.given() ? choice.every : 1;
  for (std::int64_t layer = 0; every > 0 && layer < layers; layer += every) kept.push_back(layer);
  for (const int layer : choice.layers) {
    require(layer >= 0 && layer < layers, ErrorKind::config, "--layers names layer ", layer,
            "; the model has layers 0 to ", layers - 1);
    kept.push_back(layer);
  }
  return kept;
}

// The stored tensor behind each tensor of the new model: layer i of it is layer kept[i] of the old.
std::map<std::string, std::string> renamed_tensors(const checkpoints::SafetensorsReader& reader,
                                                   const model::ModelSpec& spec,
                                                   const std::vector<std::int64_t>& kept) {
  const model::FamilyNames& names = model::names_of(spec.family);
  const std::string full = names.layer, prefix = names.optional_prefix;
  const std::string bare = full.substr(prefix.size());
  std::map<std::string, std::string> result;
  for (const auto& [name, entry] : reader.tensors()) {
    const bool short_form = name.rfind(bare, 0) == 0;
    const std::string& start = short_form ? bare : full;
    if (name.rfind(start, 0) != 0) {
      result[name] = name;
      continue;
    }
    const std::size_t dot = name.find('.', start.size());
    const std::int64_t layer = std::stoll(name.substr(start.size(), dot - start.size()));
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (kept[i] == layer) result[start + std::to_string(i) + name.substr(dot)] = name;
  }
  return result;
}

void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to) {
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    const bool weights = name.find(".safetensors") != std::string::npos || name == "config.json";
    if (entry.is_regular_file() && !weights) std::filesystem::copy_file(entry.path(), to / name);
  }
}

}  // namespace

int tokenize_command(const Arguments& arguments) {
  const options::TokenizeRequest request = options::parse_tokenize(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  const auto tokenizer = data::Tokenizer::load(request.tokenizer);
  std::cout << data_tools::to_text(data_tools::tokenize(tokenize_options(request), *tokenizer));
  return 0;
}

int import_command(const Arguments& arguments) {
  const options::ImportRequest request = options::parse_import(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  data_tools::import_gguf(request.source, request.output, request.dtype);
  log_info("wrote ", request.output);
  return 0;
}

int convert_command(const Arguments& arguments) {
  const options::ConvertRequest request = options::parse_convert(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  require_new_folder(request.output);
  model::ModelSpec spec = train::read_model_spec(request.input);
  const auto kept = kept_layers(request.layers, spec.layers);
  const checkpoints::SafetensorsReader reader(request.input);
  const auto sources = renamed_tensors(reader, spec, kept);
  std::vector<checkpoints::SafetensorsPlan> plan;
  for (const auto& [name, source] : sources)
    plan.push_back({name, checkpoints::to_element(request.dtype), reader.at(source).shape});
  std::filesystem::create_directories(request.output);
  checkpoints::write_safetensors_folder(
      request.output, plan,
      [&](const checkpoints::SafetensorsPlan& entry, checkpoints::SafetensorsSink& sink) {
        sink.put(reader.read_f32(sources.at(entry.name)));
      },
      static_cast<std::uint64_t>(request.max_shard_gib * (1 << 30)));
  copy_tokenizer(request.input, request.output);
  spec.layers = static_cast<std::int64_t>(kept.size());
  files::write_text_atomically(std::filesystem::path(request.output) / "config.json",
                               model::config_json(spec, request.dtype));
  log_info("wrote ", request.output, ": ", spec.layers, " layers, ", spec.parameters(),
           " parameters");
  return 0;
}

}  // namespace fathom::launch
