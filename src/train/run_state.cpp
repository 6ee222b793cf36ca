#include "train/run_state.h"

#include <nlohmann/json.hpp>

#include "methods/adapters/adapter_config.h"
#include "model/weights.h"

namespace fathom::train {
namespace {

constexpr const char* kFirst = "#exp_avg";
constexpr const char* kSecond = "#exp_avg_sq";

using Buffers = std::vector<std::vector<std::vector<float>>>;

checkpoints::Shape shape_of(const model::Parameter& parameter) {
  checkpoints::Shape shape;
  for (int d = 0; d < parameter.shape.dims(); ++d) shape.push_back(parameter.shape[d]);
  return shape;
}

checkpoints::Rectangle box_of(const model::Parameter& parameter, const model::Piece& piece) {
  if (parameter.shape.dims() == 1) return {{piece.row}, {piece.rows}};
  return {{piece.row, piece.column}, {piece.rows, piece.columns}};
}

void append(const model::Parameter& parameter, const std::string& name, const Tensor& local,
            Buffers& buffers, checkpoints::Snapshot& snapshot) {
  buffers.push_back(model::pieces_to_host(parameter, local));
  checkpoints::LocalTensor tensor{name, DType::f32, shape_of(parameter), {}};
  for (std::size_t i = 0; i < parameter.pieces.size(); ++i)
    tensor.pieces.push_back({box_of(parameter, parameter.pieces[i]), buffers.back()[i].data()});
  snapshot.tensors.push_back(std::move(tensor));
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

}  // namespace

std::string adapter_json(const EnginePlan& plan, const std::string& base) {
  if (plan.adapter.kind == methods::adapters::Kind::none) return "";
  return methods::adapters::adapter_config(plan.adapter, plan.student, base);
}

std::string to_json(const RunState& state) {
  const data::DataIdentity& data = state.data;
  const nlohmann::json json = {{"step", state.step},
                               {"optimizer_steps", state.optimizer_steps},
                               {"model_config", state.model_config},
                               {"adapter", state.adapter},
                               {"mode", state.mode},
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
    state.adapter = json.value("adapter", "");  // runs without one need not say so
    state.mode = json.value("mode", "");
    state.mode_steps_below = json.value("mode_steps_below", 0);
    state.moc = json.value("moc", "");
    state.data_start = json.at("data_start");
    state.evaluation_due = json.value("evaluation_due", false);
    state.method = json.value("method", nlohmann::json::object()).dump();
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

checkpoints::Snapshot snapshot(Engine& engine, bool moments) {
  const auto buffers = std::make_shared<Buffers>();
  checkpoints::Snapshot result;
  const int dp = engine.grid().shape().dp, replica = engine.grid().place().dp;
  int index = 0;
  for (const model::Parameter& parameter : engine.student().parameters().parameters()) {
    if (!parameter.owned || index++ % dp != replica) continue;
    append(parameter, parameter.name, parameter.value, *buffers, result);
    if (!moments || !parameter.trainable()) continue;
    append(parameter, parameter.name + kFirst, engine.optimizer().first_moment(parameter), *buffers,
           result);
    append(parameter, parameter.name + kSecond, engine.optimizer().second_moment(parameter),
           *buffers, result);
  }
  result.memory = buffers;
  return result;
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
