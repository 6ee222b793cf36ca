#pragma once

#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoints/safetensors.h"
#include "model/stage.h"
#include "tests/support/golden.h"
#include "train/hf_weights.h"
#include "train/probe.h"
#include "train/rows.h"

namespace fathom::test {

/// A whole model of a golden folder on one rank, and the hidden states that it makes of a
/// micro-batch, counted as Hugging Face's hidden_states.
class GoldenModel {
 public:
  GoldenModel(Device& device, const std::string& folder, bool trained) {
    const model::ModelSpec spec = train::read_model_spec(folder);
    const model::StagePlan plan{.end_layer = spec.layers,
                                .shard = model::make_shard(spec, 0, 1, spec.vocab)};
    stage_ = std::make_unique<model::Stage>(
        device, spec, plan, nullptr, [trained](const std::string&) { return trained; }, DType::f32);
    model::load_parameters(stage_->parameters(), train::HfWeights(folder));
  }

  std::vector<autograd::Var> states(autograd::Tape* tape, const train::DeviceRows& rows) const {
    std::vector<autograd::Var> states;
    model::Pass pass;
    pass.tape = tape;
    pass.rows = rows.tokens;
    pass.tap = [&](std::int64_t layer, const autograd::Var& state) {
      ASSERT_EQ(layer, static_cast<std::int64_t>(states.size()));
      states.push_back(state);
    };
    const autograd::Var last = stage_->run_blocks(pass, stage_->embed(pass));
    states.back() = stage_->finish(pass, last);
    return states;
  }

  model::Stage& stage() const { return *stage_; }

 private:
  std::unique_ptr<model::Stage> stage_;
};

/// Student, teacher, inputs and expected values of a case of golden/methods.
struct GoldenCase {
  GoldenCase(Device& device, const std::string& name)
      : folder(golden("methods/" + name)),
        expected(folder + "/expected.safetensors"),
        gradients(folder + "/grads.safetensors"),
        student(device, golden("models/llama"), true),
        teacher(device, golden("methods/teacher-llama"), false) {
    std::ifstream(folder + "/expected.json") >> json;
    const auto padded = train::read_padded_batch(golden("models/llama/inputs.safetensors"));
    batch = data::from_padded(padded.ids, padded.mask, padded.labels, padded.rows, padded.length,
                              static_cast<std::int32_t>(student.stage().spec().vocab));
    rows = train::upload(device, batch);
  }

  std::string folder;
  nlohmann::json json;
  checkpoints::SafetensorsReader expected, gradients;
  GoldenModel student, teacher;
  data::MicroBatch batch;
  train::DeviceRows rows;
};

/// Within 5e-5, relative where a value is beyond 10.
inline void expect_output(const std::vector<float>& ours, const std::vector<float>& theirs,
                          const std::string& name) {
  ASSERT_EQ(ours.size(), theirs.size()) << name;
  for (std::size_t i = 0; i < ours.size(); ++i)
    ASSERT_LE(output_difference(ours[i], theirs[i]), 5e-5) << name << ", element " << i;
}

/// Within 2e-3 of the norm, and never more than 1e-6 of all gradients together.
inline void expect_gradient(const std::vector<float>& ours, const std::vector<float>& theirs,
                            double total, const std::string& name) {
  EXPECT_LT(distance(ours, theirs), 2e-3 * norm(theirs) + 1e-6 * total) << name;
}

}  // namespace fathom::test
