#include "diagnose/moc/controls.h"

#include <algorithm>
#include <cmath>

#include "checkpoints/checkpoint_reader.h"
#include "methods/adapters/adapter_config.h"
#include "methods/adapters/parallel_control.h"
#include "methods/moc/extension.h"
#include "methods/moc/spec_json.h"
#include "train/run_state.h"

namespace fathom::diagnose::moc {
namespace {

using model::BlockSite;

Matrix read_matrix(checkpoints::CheckpointReader& reader, const std::string& name,
                   std::int64_t rows, std::int64_t columns) {
  const checkpoints::Shape shape = {rows, columns};
  reader.at(name, shape);
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  reader.read(name, checkpoints::whole(shape), values.data());
  Matrix matrix(rows, columns);
  std::copy(values.begin(), values.end(), matrix.values.begin());
  return matrix;
}

double frobenius(const Matrix& matrix) {
  double squares = 0;
  for (const double value : matrix.values) squares += value * value;
  return std::sqrt(squares);
}

}  // namespace

const Control* Controls::find(std::int64_t layer, BlockSite site) const {
  const auto found = std::find_if(controls.begin(), controls.end(), [&](const Control& c) {
    return c.layer == layer && c.site == site;
  });
  return found == controls.end() ? nullptr : &*found;
}

double Controls::norm(std::size_t site) const {
  const Control* control = find(layer_of(site), kind_of(site));
  return control != nullptr ? control->norm() : 0;
}

Controls read_controls(const std::filesystem::path& checkpoint) {
  const auto self = comm::self_communicator();
  auto reader = checkpoints::CheckpointReader::open(*self, checkpoint, {.verify = true});
  const std::string origin = checkpoint.string();
  const train::RunState state = train::parse_run_state(reader.manifest().run.state, origin);
  const model::ModelSpec model = model::parse_config(state.model_config, origin);
  Controls result;
  result.layers = model.layers;
  result.hidden = model.hidden;
  methods::adapters::AdapterSpec adapter;
  if (!state.adapter.empty())
    adapter = methods::adapters::parse_adapter_config(state.adapter, origin);
  if (!state.moc.empty()) {
    result.moc = methods::moc::parse_spec(state.moc, origin);
    result.rank = result.moc->rank;
    result.alpha = result.moc->alpha;
  } else {
    require(adapter.kind == methods::adapters::Kind::parallel_control, ErrorKind::config, origin,
            ": this run trained neither mixture of control nor Parallel Control (it trained ",
            state.adapter.empty() ? "no adapter" : to_string(adapter.kind), ")");
    result.rank = adapter.rank;
    result.alpha = adapter.control_scale;
  }
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    for (const BlockSite site : {BlockSite::attention, BlockSite::mlp}) {
      const auto name = [&](char matrix) {
        return result.moc ? methods::moc::control_name(layer, site, matrix)
                          : methods::adapters::control_name(model, layer, site, matrix);
      };
      if (!reader.contains(name('A'))) continue;
      const Matrix a = read_matrix(reader, name('A'), result.rank, result.hidden);
      const Matrix b = read_matrix(reader, name('B'), result.hidden, result.rank);
      result.controls.push_back(
          {layer, site, singular_values_of_product(b, a), frobenius(a) * frobenius(b)});
    }
  return result;
}

}  // namespace fathom::diagnose::moc
