#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/parameter_names.h"
#include "generate/sampling.h"
#include "methods/adapters/parameter_names.h"
#include "train/engine.h"
#include "train/hf_weights.h"

namespace fathom::test {

/// The weights of a LLaMA's folder, and numbers that nothing has trained for what a method adds:
/// the same on every grid, large enough to matter.
class Planted : public model::WeightSource {
 public:
  explicit Planted(const std::string& folder) : base_(folder) {}
  void read(const model::Parameter& parameter, const model::Piece& piece,
            float* out) const override {
    const std::string& name = parameter.name;
    if (!is_method_parameter(name) && !methods::adapters::is_adapter_parameter(name))
      return base_.read(parameter, piece, out);
    const std::int64_t width = parameter.shape.dims() == 2 ? parameter.shape[1] : 1;
    const bool norm = name.find("mode.norm") != std::string::npos;
    const float spread = name.find("router") != std::string::npos ? 4.0f : 0.4f;
    for (std::int64_t r = 0; r < piece.rows; ++r)
      for (std::int64_t c = 0; c < piece.columns; ++c) {
        const std::int64_t element = (piece.row + r) * width + piece.column + c;
        const auto centred =
            static_cast<float>(generate::uniform(7, std::hash<std::string>()(name), element)) -
            0.5f;
        out[r * piece.columns + c] = (norm ? 1.0f : 0.0f) + spread * centred;
      }
  }

 private:
  train::HfWeights base_;
};

/// An engine that can only generate, with planted numbers. Collective over the grid.
inline std::unique_ptr<train::Engine> planted_engine(Device& device, comm::ProcessGrid& grid,
                                                     const train::TrainConfig& config) {
  auto engine =
      std::make_unique<train::Engine>(device, grid, config, train::make_engine_plan(config), false);
  engine->load_initial_weights();
  model::load_parameters(engine->student().parameters(), Planted(config.model.path));
  engine->weights_changed();
  return engine;
}

}  // namespace fathom::test
