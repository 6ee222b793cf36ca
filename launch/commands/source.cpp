#include "launch/commands/source.h"

#include "checkpoints/run_folder.h"
#include "core/files.h"
#include "methods/adapters/adapter_config.h"
#include "methods/moc/spec_json.h"
#include "train/hf_weights.h"
#include "train/mode_file.h"
#include "train/run_state.h"

namespace fathom::launch {

std::filesystem::path find_checkpoint(const std::string& name) {
  const std::filesystem::path folder(name);
  if (std::filesystem::exists(folder / checkpoints::kManifestName)) return folder;
  const auto steps = checkpoints::committed_steps(folder);
  require(!steps.empty(), ErrorKind::io, name, ": neither a checkpoint nor a run with one");
  return folder / checkpoints::step_name(steps.back());
}

SourcePlan open_source(const options::ModelSource& source, const options::Ranks& ranks) {
  options::check_source(source);
  SourcePlan result{.source = source,
                    .config = {},
                    .plan = {.student = {},
                             .teacher = std::nullopt,
                             .student_from_teacher = {},
                             .student_layers = pipeline::Partition({1}),
                             .teacher_layers = std::nullopt},
                    .checkpoint = {},
                    .tokenizer = source.model};
  result.config.grid.tp = ranks.tp;
  result.config.grid.pp = ranks.pp;
  result.config.grid.dp = ranks.dp;
  result.config.model.frozen_dtype = source.dtype;
  model::ModelSpec spec;
  methods::adapters::AdapterSpec adapter;
  std::optional<methods::mode::ModeSpec> mode;
  std::filesystem::path mode_folder;
  methods::moc::Spec moc;
  if (source.checkpoint.empty()) {
    spec = train::read_model_spec(source.model);
    mode_folder = train::voting_folder(source.model, source.adapter);
    if (!mode_folder.empty()) mode = train::read_mode_spec(mode_folder);
  } else {
    result.checkpoint = find_checkpoint(source.checkpoint);
    result.tokenizer =
        std::filesystem::weakly_canonical(result.checkpoint).parent_path() / "tokenizer";
    const auto manifest = checkpoints::load_manifest(result.checkpoint);
    const auto state = train::parse_run_state(manifest.run.state, result.checkpoint.string());
    spec = model::parse_config(state.model_config, result.checkpoint.string() + " (model_config)");
    result.loss_on_prompt = state.loss_on_prompt;
    if (!state.adapter.empty())
      adapter = methods::adapters::parse_adapter_config(state.adapter,
                                                        result.checkpoint.string() + " (adapter)");
    if (!state.mode.empty())
      mode = methods::mode::parse_mode(state.mode, result.checkpoint.string() + " (mode)");
    if (!state.moc.empty())
      moc = methods::moc::parse_spec(state.moc, result.checkpoint.string() + " (moc)");
  }
  result.plan = train::plan_for(spec, result.config);
  result.plan.set_adapter(adapter, source.adapter);
  result.plan.set_moc(moc);
  if (mode) result.plan.set_mode(*mode, mode_folder.string(), source.model);
  return result;
}

void load_source(train::Engine& engine, const SourcePlan& source) {
  if (source.checkpoint.empty()) {
    engine.load_student(train::HfWeights(source.source.model));
    return;
  }
  auto reader = checkpoints::CheckpointReader::open(engine.grid().world(), source.checkpoint,
                                                    {.verify = true});
  train::restore(engine, reader, false);
  engine.weights_changed();
}

}  // namespace fathom::launch
