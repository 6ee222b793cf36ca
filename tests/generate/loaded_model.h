#pragma once

#include <memory>
#include <string>

#include "comm/process_grid.h"
#include "generate/generator.h"
#include "model/stage.h"
#include "train/hf_weights.h"

namespace fathom::test {

/// This rank's stage of a Hugging Face folder, frozen, on a grid that divides layers evenly.
struct LoadedModel {
  LoadedModel(const std::string& folder, Device& device, comm::Communicator& world,
              const comm::GridShape& shape)
      : grid(world, shape, device) {
    const model::ModelSpec spec = train::read_model_spec(folder);
    model::StagePlan plan;
    plan.first_layer = spec.layers * grid.place().pp / shape.pp;
    plan.end_layer = spec.layers * (grid.place().pp + 1) / shape.pp;
    plan.has_embedding = grid.is_first_stage();
    plan.has_head = grid.is_last_stage();
    plan.shard = model::make_shard(spec, grid.place().tp, shape.tp, spec.vocab);
    stage = std::make_unique<model::Stage>(
        device, spec, plan, &grid.tp(), [](const std::string&) { return false; }, DType::f32);
    model::load_parameters(stage->parameters(), train::HfWeights(folder));
  }

  comm::ProcessGrid grid;
  std::unique_ptr<model::Stage> stage;
};

}  // namespace fathom::test
