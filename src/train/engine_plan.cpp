#include <algorithm>
#include <numeric>

#include "core/files.h"
#include "methods/adapters/targets.h"
#include "train/adapter_folder.h"
#include "train/engine.h"
#include "train/hf_weights.h"
#include "train/mode_file.h"
#include "train/mode_transport.h"
#include "train/token_costs.h"
#include "train/trained.h"

namespace fathom::train {
namespace {

model::ModelSpec read_student(const TrainConfig& config,
                              const std::optional<model::ModelSpec>& teacher,
                              std::vector<std::int64_t>& chosen) {
  const ModelConfig& model = config.model;
  if (model.init == Init::path) return read_model_spec(model.path);
  if (model.init == Init::random)
    return model::parse_config(files::read_text(model.config), model.config);
  require(teacher.has_value(), ErrorKind::config, "model.init = teacher_layers needs teacher.path");
  model::ModelSpec spec = *teacher;
  if (model.teacher_layers.every > 0) {
    for (std::int64_t layer = 0; layer < spec.layers; layer += model.teacher_layers.every)
      chosen.push_back(layer);
  } else {
    for (const int layer : model.teacher_layers.layers) {
      require(layer >= 0 && layer < spec.layers, ErrorKind::config,
              "model.teacher_layers names layer ", layer, "; the teacher has layers 0 to ",
              spec.layers - 1);
      chosen.push_back(layer);
    }
  }
  spec.layers = static_cast<std::int64_t>(chosen.size());
  return spec;
}

std::optional<pipeline::Partition> fixed(const std::vector<int>& counts,
                                         const model::ModelSpec& spec, int stages,
                                         const char* key) {
  if (counts.empty()) return std::nullopt;
  return pipeline::explicit_partition(counts, static_cast<int>(spec.layers), stages, key);
}

// The blocks whose outputs are compared, which had better be on one stage. FDD's states go to the
// last stage anyway.
std::vector<pipeline::ComparedLayers> compared_layers(const EnginePlan& plan) {
  std::vector<pipeline::ComparedLayers> compared;
  for (const methods::KeyLayer& pair : plan.mta_layers)
    if (pair.student > 0 && pair.teacher > 0)
      compared.push_back({static_cast<int>(pair.student - 1), static_cast<int>(pair.teacher - 1)});
  return compared;
}

// Before layers are placed.
pipeline::Partition whole(const model::ModelSpec& spec) {
  return pipeline::Partition({static_cast<int>(spec.layers)});
}

void place_layers(const TrainConfig& config, EnginePlan& plan) {
  const GridConfig& grid = config.grid;
  const TokenCosts costs = token_costs(config, plan);
  const auto student = fixed(grid.layers, plan.student, grid.pp, "grid.layers");
  const pipeline::DepthCosts student_costs = costs.student();
  if (!plan.teacher) {
    plan.student_layers = student ? *student : pipeline::balanced_partition(student_costs, grid.pp);
    return;
  }
  auto both = pipeline::joint_partition(
      student_costs, costs.teacher(plan.teacher->layers), compared_layers(plan), grid.pp, student,
      fixed(grid.teacher_layers, *plan.teacher, grid.pp, "grid.teacher_layers"));
  plan.student_layers = std::move(both.student);
  plan.teacher_layers = std::move(both.teacher);
}

void check_stages(const EnginePlan& plan) {
  require(plan.adapter.kind != methods::adapters::Kind::molex || plan.student_layers.stages() == 1,
          ErrorKind::config, "adapter.kind = molex with grid.pp = ", plan.student_layers.stages(),
          ": a layer may run any other one, whose frozen weights then must lie on the same stage; "
          "take one stage (pp = 1) and, for more ranks, tp or dp");
}

// Light: the layers that vote have no adapter.
methods::adapters::AdapterSpec adapter_spec(const TrainConfig& config, const EnginePlan& plan) {
  methods::adapters::AdapterSpec spec = config.adapter.spec;
  if (!config.mode.enabled || !config.mode.light) return spec;
  const int early = static_cast<int>(plan.student.layers) - config.mode.spec.k;
  require(early > 0, ErrorKind::config, "mode.light with mode.k = ", config.mode.spec.k,
          ": all layers of the model vote, and none is left for the adapter");
  spec.layers.resize(static_cast<std::size_t>(early));
  std::iota(spec.layers.begin(), spec.layers.end(), 0);
  return spec;
}

// Late layers that vote in the folder that a run starts from go on voting, or the run says so.
void set_votes(const TrainConfig& config, EnginePlan& plan) {
  require(config.teacher.path.empty() || !read_mode_spec(config.teacher.path), ErrorKind::config,
          "teacher.path = ", config.teacher.path,
          ": late layers of this model vote (mode.json), and a teacher is heard through its last "
          "layer; a copy of the folder without mode.json teaches so");
  const auto folder = voting_folder(config.model.path, config.adapter.path);
  const auto& mode = config.mode;
  if (folder.empty()) {
    if (mode.enabled) plan.set_mode(mode.spec);
    return;
  }
  require(mode.enabled, ErrorKind::config, folder.string(),
          ": late layers of this model vote (mode.json): mode.enabled = true trains them further; "
          "a copy of the folder without mode.json trains the last layer alone");
  methods::mode::ModeSpec stored = *read_mode_spec(folder);
  stored.top_k = mode.spec.top_k;  // what is kept of the scores, the run may choose anew
  require(stored == mode.spec, ErrorKind::config, folder.string(), ": its late layers vote by ",
          methods::mode::to_json(stored), ", and [mode] asks for ",
          methods::mode::to_json(mode.spec), "; make the section agree");
  require(mode.router_init == ModeConfig().router_init, ErrorKind::config,
          "mode.router_init: the router starts as ", folder.string(), " has it; leave this out");
  plan.set_mode(mode.spec, folder.string(), config.model.path);
}

std::int64_t choose_context(const TrainConfig& config, const EnginePlan& plan) {
  std::int64_t most = plan.student.max_positions;
  if (plan.teacher) most = std::min(most, plan.teacher->max_positions);
  if (config.data.context == 0) return most;
  require(config.data.context <= most, ErrorKind::config, "data.context = ", config.data.context,
          " is more than the ", most, " positions of the model");
  return config.data.context;
}

std::int64_t counted_vocabulary(const LossConfig& loss, const model::ModelSpec& student,
                                const std::optional<model::ModelSpec>& teacher) {
  const std::int64_t both = teacher ? std::min(student.vocab, teacher->vocab) : student.vocab;
  require(loss.vocab <= both, ErrorKind::config, "loss.vocab = ", loss.vocab, ": the models have ",
          both, " entries", teacher ? " in common" : "", "; give at most so many, or 0 for all");
  return loss.vocab > 0 ? loss.vocab : both;
}

}  // namespace

void EnginePlan::set_adapter(const methods::adapters::AdapterSpec& spec, const std::string& path) {
  adapter_path = path;
  if (path.empty()) {
    adapter = methods::adapters::resolve(spec, student);
    check_stages(*this);
    return;
  }
  const auto stored = read_adapter_spec(path);
  try {
    adapter = methods::adapters::resolve(stored, student, methods::adapters::Unmatched::drop);
  } catch (const Error& error) {
    fail(error.kind(), path, ": this adapter does not fit the model: ", error.what());
  }
  check_stages(*this);
  AdapterFolder(path, adapter, student);  // what engines would find, but before MPI
}

void EnginePlan::set_mode(const methods::mode::ModeSpec& spec, const std::string& path,
                          const std::string& model) {
  methods::mode::check(spec, student);
  mode = spec;
  mode_path = path;
  if (path.empty()) return;
  const ModeFolder votes(path, spec, student);  // what engines would find, but before MPI
  if (!model.empty()) votes.check_backbone(student, HfWeights(model));
}

void EnginePlan::set_moc(const methods::moc::Spec& spec) {
  moc = spec;
  require(!moc.enabled || moc.top_k <= student.layers, ErrorKind::config, "moc.top_k = ", moc.top_k,
          ": the experts are the model's ", student.layers, " layers; take at most so many");
  require(!moc.enabled || moc.rank <= student.hidden, ErrorKind::config, "moc.rank = ", moc.rank,
          " is more than the model's width ", student.hidden);
}

model::StagePlan EnginePlan::stage_plan(const model::ModelSpec& spec,
                                        const pipeline::Partition& layers,
                                        const comm::GridShape& grid,
                                        const comm::GridCoordinates& place) const {
  model::StagePlan plan;
  plan.first_layer = layers.begin(place.pp);
  plan.end_layer = layers.end(place.pp);
  plan.has_embedding = place.pp == 0;
  plan.has_head = place.pp == grid.pp - 1;
  plan.shard = model::make_shard(spec, place.tp, grid.tp, loss_vocab);
  return plan;
}

EnginePlan make_engine_plan(const TrainConfig& config) {
  std::optional<model::ModelSpec> teacher;
  if (!config.teacher.path.empty()) teacher = read_model_spec(config.teacher.path);
  std::vector<std::int64_t> chosen;
  const model::ModelSpec student = read_student(config, teacher, chosen);
  EnginePlan plan{.student = student,
                  .teacher = teacher,
                  .student_from_teacher = chosen,
                  .student_layers = whole(student),
                  .teacher_layers = std::nullopt};
  plan.loss_vocab = counted_vocabulary(config.loss, student, teacher);
  const auto pairs = [&](const char* section, bool enabled, const auto& part) {
    if (!enabled) return std::vector<methods::KeyLayer>();
    require(teacher.has_value(), ErrorKind::config, section, ".enabled needs teacher.path");
    return methods::key_layers(section, part.student_layers, part.teacher_layers, student.layers,
                               teacher->layers);
  };
  plan.mta_layers = pairs("mta", config.mta.enabled, config.mta);
  plan.fdd_layers = pairs("fdd", config.fdd.enabled, config.fdd);
  for (int rank = 0; rank < config.grid.tp; ++rank) {
    model::make_shard(student, rank, config.grid.tp, plan.loss_vocab);
    if (teacher) model::make_shard(*teacher, rank, config.grid.tp, plan.loss_vocab);
  }
  plan.context = choose_context(config, plan);
  set_votes(config, plan);
  plan.set_adapter(adapter_spec(config, plan), config.adapter.path);
  plan.set_moc(config.moc);
  plan.label_share = label_share(config);
  place_layers(config, plan);
  check_stages(plan);  // which set_adapter() saw as one
  if (plan.mode) plan.vote_transport = choose_transport(config, plan);
  check_trained(config, plan);
  return plan;
}

EnginePlan plan_for(const model::ModelSpec& spec, const TrainConfig& config) {
  EnginePlan plan{.student = spec,
                  .teacher = std::nullopt,
                  .student_from_teacher = {},
                  .student_layers = whole(spec),
                  .teacher_layers = std::nullopt};
  place_layers(config, plan);
  plan.loss_vocab = spec.vocab;
  plan.context = spec.max_positions;
  for (int rank = 0; rank < config.grid.tp; ++rank)
    model::make_shard(spec, rank, config.grid.tp, spec.vocab);
  return plan;
}

}  // namespace fathom::train
