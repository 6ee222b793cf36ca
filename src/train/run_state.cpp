#include "train/run_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/arena.h"
#include "core/parameter_names.h"
#include "methods/adapters/adapter_config.h"
#include "model/piece_copy.h"
#include "model/weights.h"
#include "train/method_state.h"

namespace fathom::train {
namespace {

constexpr const char* kFirst = "#exp_avg";
constexpr const char* kSecond = "#exp_avg_sq";

checkpoints::Shape shape_of(const model::Parameter& parameter) {
  checkpoints::Shape shape;
  for (int d = 0; d < parameter.shape.dims(); ++d) shape.push_back(parameter.shape[d]);
  return shape;
}

checkpoints::Rectangle box_of(const model::Parameter& parameter, const model::Piece& piece) {
  if (parameter.shape.dims() == 1) return {{piece.row}, {piece.rows}};
  return {{piece.row, piece.column}, {piece.rows, piece.columns}};
}

// A tensor of the shape and the pieces of a parameter, under its name in a checkpoint.
struct Saved {
  const model::Parameter& parameter;
  std::string name;
  Tensor local;
};

// What this rank saves: data-parallel replicas, which hold the same, take turns.
std::vector<Saved> shared_out(Engine& engine, bool moments) {
  std::vector<Saved> list;
  const int dp = engine.grid().shape().dp, replica = engine.grid().place().dp;
  int index = 0;
  for (const model::Parameter& parameter : engine.student().parameters().parameters()) {
    if (!parameter.owned || index++ % dp != replica) continue;
    list.push_back({parameter, parameter.name, parameter.value});
    if (!moments || !parameter.trainable()) continue;
    Optimizer& optimizer = engine.optimizer();
    list.push_back({parameter, parameter.name + kFirst, optimizer.first_moment(parameter)});
    list.push_back({parameter, parameter.name + kSecond, optimizer.second_moment(parameter)});
  }
  return list;
}

std::size_t bytes_of(const Saved& saved, const model::Piece& piece) {
  return static_cast<std::size_t>(piece.rows * piece.columns) * size_of(saved.local.dtype());
}

void read(checkpoints::CheckpointReader& reader, const model::Parameter& parameter,
          const std::string& name, const Tensor& local) {
  reader.at(name, shape_of(parameter));
  for (const model::Piece& piece : parameter.pieces) {
    std::vector<float> values(static_cast<std::size_t>(piece.rows * piece.columns));
    reader.read(name, box_of(parameter, piece), values.data());
    model::piece_from_host(parameter, local, piece, values);
  }
}

bool may_be_left(const std::string& name) {
  return name.find('#') != std::string::npos || is_method_state(name) ||
         name.starts_with(str(kMethodPrefix, "mta."));
}

}  // namespace

std::string adapter_json(const EnginePlan& plan, const std::string& base) {
  if (plan.adapter.kind == methods::adapters::Kind::none) return "";
  return methods::adapters::adapter_config(plan.adapter, plan.student, base);
}

void require_same_adapter(const RunState& saved, const EnginePlan& plan,
                          const std::string& origin) {
  using nlohmann::json;
  // Written anew: what an older checkpoint says in other words is the same.
  const auto rewritten = [&] {
    return methods::adapters::adapter_config(
        methods::adapters::parse_adapter_config(saved.adapter, origin), plan.student, "");
  };
  const json was = json::parse(saved.adapter.empty() ? "{}" : rewritten());
  const std::string here = adapter_json(plan, "");
  const json is = json::parse(here.empty() ? "{}" : here);
  const auto text = [](const json& config, const std::string& key) {
    return config.contains(key) ? config[key].dump() : std::string("nothing");
  };
  std::string differences;
  for (const json* side : {&was, &is})
    for (const auto& [key, value] : side->items())
      if (text(was, key) != text(is, key) && (side == &was || !was.contains(key)))
        differences += str("\n  ", key, " was ", text(was, key), ", is ", text(is, key));
  require(differences.empty(), ErrorKind::config, origin,
          ": the run's adapter is not the one that this checkpoint was trained with "
          "(run.accept_changes = true uses the new one):",
          differences);
}

std::string to_json(const RunState& state) {
  const data::DataIdentity& data = state.data;
  nlohmann::json json = {{"step", state.step},
                         {"optimizer_steps", state.optimizer_steps},
                         {"model_config", state.model_config},
                         {"teacher", state.teacher},
                         {"adapter", state.adapter},
                         {"mode", state.mode},
                         {"mode_k", state.mode_k},
                         {"mode_steps_below", state.mode_steps_below},
                         {"moc", state.moc},
                         {"data_start", state.data_start},
                         {"evaluation_due", state.evaluation_due},
                         {"method", nlohmann::json::parse(state.method)},
                         {"data",
                          {{"content", data.content},
                           {"context", data.context},
                           {"overlong", data.overlong},
                           {"seed", data.seed},
                           {"shuffle", data.shuffle},
                           {"samples_per_step", data.samples_per_step},
                           {"corpus", data.corpus},
                           {"corpus_samples_per_step", data.corpus_samples_per_step}}}};
  if (state.loss_on_prompt) json["loss_on_prompt"] = *state.loss_on_prompt;
  if (state.gaps) json["gaps"] = {state.gaps->chosen, state.gaps->rejected};
  return json.dump();
}

RunState parse_run_state(const std::string& text, const std::string& origin) {
  try {
    const auto json = nlohmann::json::parse(text);
    const auto& data = json.at("data");
    RunState state;
    state.step = json.at("step");
    state.optimizer_steps = json.at("optimizer_steps");
    state.model_config = json.at("model_config");
    state.teacher = json.value("teacher", "");
    state.adapter = json.value("adapter", "");  // runs without one need not say so
    state.mode = json.value("mode", "");
    state.mode_k = json.value("mode_k", 0);
    state.mode_steps_below = json.value("mode_steps_below", 0);
    state.moc = json.value("moc", "");
    state.data_start = json.at("data_start");
    state.evaluation_due = json.value("evaluation_due", false);
    state.method = json.value("method", nlohmann::json::object()).dump();
    if (json.contains("loss_on_prompt")) state.loss_on_prompt = json["loss_on_prompt"].get<bool>();
    if (json.contains("gaps")) state.gaps = {json["gaps"].at(0), json["gaps"].at(1)};
    state.data = {
        .content = data.at("content"),
        .context = data.at("context"),
        .overlong = data.at("overlong"),
        .seed = data.at("seed"),
        .shuffle = data.at("shuffle"),
        .samples_per_step = data.at("samples_per_step"),
        .corpus = data.value("corpus", ""),
        .corpus_samples_per_step = data.value("corpus_samples_per_step", std::int64_t{0})};
    return state;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::io, origin, ": the run's state cannot be read: ", error.what());
  }
}

// Training waits for this: one block with huge pages, since the page faults of ordinary memory take
// as long as the copying itself.
checkpoints::Snapshot snapshot(Engine& engine, bool moments) {
  const std::vector<Saved> list = shared_out(engine, moments);
  std::size_t bytes = 0;
  for (const Saved& saved : list)
    for (const model::Piece& piece : saved.parameter.pieces)
      bytes += bytes_of(saved, piece) + Arena::kAlignment;
  const auto memory = std::make_shared<Arena>(bytes);
  checkpoints::Snapshot result;
  for (const Saved& saved : list) {
    const model::Parameter& parameter = saved.parameter;
    checkpoints::LocalTensor tensor{saved.name, saved.local.dtype(), shape_of(parameter), {}};
    for (const model::Piece& piece : parameter.pieces) {
      const std::size_t size = bytes_of(saved, piece);
      auto* copy = static_cast<std::byte*>(memory->allocate(size));
      model::piece_to_host(parameter, saved.local, piece, {copy, size});
      tensor.pieces.push_back({box_of(parameter, piece), copy});
    }
    result.tensors.push_back(std::move(tensor));
  }
  result.memory = memory;
  return result;
}

std::vector<std::string> trained_parameters(const checkpoints::Manifest& manifest) {
  const std::string ending = kFirst;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : manifest.tensors)
    if (name.ends_with(ending)) names.push_back(name.substr(0, name.size() - ending.size()));
  return names;
}

void require_all_wanted(Engine& engine, const checkpoints::CheckpointReader& reader) {
  const auto& tensors = reader.manifest().tensors;
  std::vector<std::int64_t> wanted;
  for (const auto& [name, tensor] : tensors)
    wanted.push_back(may_be_left(name) || engine.student().parameters().find(name) != nullptr);
  engine.grid().world().all_reduce(wanted.data(), wanted.size(), comm::ReduceOp::max);
  std::string some;
  std::size_t left = 0, at = 0;
  for (const auto& [name, tensor] : tensors)
    if (wanted[at++] == 0 && ++left <= 3) some += (some.empty() ? "" : ", ") + name;
  require(left == 0, ErrorKind::config, reader.folder().string(), ": ", left,
          " of its parameters are none of this run's: ", some, left > 3 ? " and others" : "",
          "; go on with the adapter and the methods that the run began with");
}

void restore(model::ParameterSet& parameters, checkpoints::CheckpointReader& reader) {
  for (const model::Parameter& parameter : parameters.parameters())
    read(reader, parameter, parameter.name, parameter.value);
}

void restore(Engine& engine, checkpoints::CheckpointReader& reader, bool moments) {
  restore(engine.student().parameters(), reader);
  if (!moments) return;
  for (const model::Parameter& parameter : engine.student().parameters().parameters()) {
    if (!parameter.trainable()) continue;
    read(reader, parameter, parameter.name + kFirst, engine.optimizer().first_moment(parameter));
    read(reader, parameter, parameter.name + kSecond, engine.optimizer().second_moment(parameter));
  }
}

}  // namespace fathom::train
