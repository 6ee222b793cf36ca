#include "launch/options/checkpoint.h"

#include <iostream>

#include "checkpoints/checkpoint_tools.h"
#include "core/files.h"
#include "core/log.h"
#include "core/parameter_names.h"
#include "launch/commands/commands.h"
#include "launch/commands/new_folder.h"
#include "launch/commands/source.h"
#include "methods/adapters/adapter_config.h"
#include "methods/mode/late_vote.h"
#include "train/adapter_folder.h"
#include "train/hf_weights.h"
#include "train/mode_file.h"
#include "train/run_state.h"

namespace fathom::launch {
namespace {

int verify(const std::filesystem::path& folder) {
  const std::vector<std::string> damages = checkpoints::verify(folder);
  for (const std::string& damage : damages) std::cout << damage << "\n";
  if (damages.empty()) std::cout << folder.string() << ": sound\n";
  return damages.empty() ? 0 : exit_code(ErrorKind::io);
}

// The model's own weights as the run trained or froze them.
class CheckpointWeights : public model::WeightSource {
 public:
  explicit CheckpointWeights(checkpoints::CheckpointReader& reader) : reader_(reader) {}
  void read(const model::Parameter& parameter, const model::Piece& piece,
            float* out) const override {
    reader_.read(parameter.name, {{piece.row, piece.column}, {piece.rows, piece.columns}}, out);
  }

 private:
  checkpoints::CheckpointReader& reader_;
};

// What late layers vote with, beside weights that were exported before it.
void export_votes(checkpoints::CheckpointReader& reader, const std::string& mode,
                  const model::ModelSpec& spec, const model::WeightSource& weights,
                  const std::filesystem::path& output) {
  train::write_mode_file(reader, mode, spec, weights, output);
  log_warn("late layers of this model vote; what they vote with is in ",
           (output / "mode.safetensors").string(),
           ", and programs that do not read it run the last layer alone");
}

// A peft folder holds the adapter and nothing of the model; what late layers vote with goes into a
// file of its own.
void require_only_adapter_trained(const checkpoints::CheckpointReader& reader,
                                  const train::RunState& state, const model::ModelSpec& spec) {
  std::string lost;
  for (const std::string& name : train::trained_parameters(reader.manifest())) {
    const bool voting = !state.mode.empty() && methods::mode::is_last_norm(name, spec);
    if (!is_method_parameter(name) && !voting) lost += (lost.empty() ? "" : ", ") + name;
  }
  require(lost.empty(), ErrorKind::config, reader.folder().string(),
          ": --adapter=peft would lose what this run trained beside its adapter: ", lost,
          "; --adapter=merged exports the whole model where the adapter can be merged, and the "
          "checkpoint itself generates and is evaluated");
}

void copy_tokenizer(const std::filesystem::path& checkpoint, const std::filesystem::path& output) {
  const auto tokenizer = std::filesystem::weakly_canonical(checkpoint).parent_path() / "tokenizer";
  if (!std::filesystem::exists(tokenizer)) {
    log_warn(tokenizer.string(), " is missing: the export has no tokenizer");
    return;
  }
  for (const auto& entry : std::filesystem::directory_iterator(tokenizer))
    std::filesystem::copy_file(entry.path(), output / entry.path().filename());
}

using Changes = std::map<std::string, std::function<void(std::vector<float>&)>>;

// A Hugging Face folder that transformers loads: weights, config.json, and the tokenizer that the
// run kept.
void write_model(checkpoints::CheckpointReader& reader, const model::ModelSpec& spec,
                 const Changes& changes, const options::CheckpointRequest& request) {
  const std::filesystem::path output(request.output);
  std::filesystem::create_directories(output);
  checkpoints::export_safetensors(
      reader, output,
      {.wanted = {},
       .changes = changes,
       .dtype = request.dtype,
       .shard_bytes = static_cast<std::uint64_t>(request.max_shard_gib * (1 << 30))});
  files::write_text_atomically(output / "config.json", model::config_json(spec, request.dtype));
  copy_tokenizer(reader.folder(), output);
}

// All that can be refused is refused before the folder is made.
void export_folder(const std::filesystem::path& checkpoint,
                   const options::CheckpointRequest& request) {
  const std::filesystem::path output(request.output);
  require_new_folder(output);
  const auto self = comm::self_communicator();
  auto reader = checkpoints::CheckpointReader::open(*self, checkpoint, {.verify = true});
  const auto state = train::parse_run_state(reader.manifest().run.state, checkpoint.string());
  const model::ModelSpec spec = model::parse_config(state.model_config, checkpoint.string());
  const bool adapter_alone = request.adapter == options::AdapterExport::peft;
  require(state.moc.empty(), ErrorKind::config, checkpoint.string(),
          ": this run trained mixture of control, whose controls depend on the input and cannot be "
          "merged into weights; use the checkpoint itself (generate, evaluate)");
  require(!adapter_alone || !state.adapter.empty(), ErrorKind::config, checkpoint.string(),
          ": --adapter=peft, but this run trained no adapter");
  if (adapter_alone) {
    require_only_adapter_trained(reader, state, spec);
    train::write_adapter_folder(reader, state.adapter, spec, output);
    if (!state.mode.empty())
      export_votes(reader, state.mode, spec, CheckpointWeights(reader), output);
  } else {
    Changes changes;
    if (!state.adapter.empty())
      changes = train::merge_changes(
          reader, methods::adapters::parse_adapter_config(state.adapter, checkpoint.string()),
          spec);
    write_model(reader, spec, changes, request);
    if (!state.mode.empty())
      export_votes(reader, state.mode, spec, train::HfWeights(output), output);
  }
  log_info("exported ", adapter_alone ? "the adapter of " : "", checkpoint.string(), " to ",
           output.string());
}

}  // namespace

int checkpoint_command(const Arguments& arguments) {
  const options::CheckpointRequest request = options::parse_checkpoint(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  const std::filesystem::path folder = find_checkpoint(request.checkpoint);
  switch (request.action) {
    case options::CheckpointAction::inspect:
      std::cout << checkpoints::inspect(folder);
      return 0;
    case options::CheckpointAction::verify:
      return verify(folder);
    case options::CheckpointAction::export_folder:
      export_folder(folder, request);
      return 0;
  }
  return 0;
}

}  // namespace fathom::launch
