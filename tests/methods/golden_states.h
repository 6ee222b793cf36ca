#pragma once

#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoints/safetensors.h"
#include "model/stage.h"
#include "train/hf_weights.h"
#include "train/probe.h"
#include "train/rows.h"

namespace fathom::test {

inline std::string golden(const std::string& path) {
  return std::string(FATHOM_TEST_DATA) + "/golden/" + path;
}

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
    model::load_parameters(stage_->parameters(), train::HfWeights(folder, spec.family));
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

inline double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

/// Within 5e-5, relative where a value is beyond 10.
inline void expect_output(const std::vector<float>& ours, const std::vector<float>& theirs,
                          const std::string& name) {
  ASSERT_EQ(ours.size(), theirs.size()) << name;
  for (std::size_t i = 0; i < ours.size(); ++i)
    ASSERT_NEAR(ours[i], theirs[i], 5e-5 * std::max(1.0f, std::abs(theirs[i]) / 10))
        << name << ", element " << i;
}

/// Within 2e-3 of the norm, and never more than 1e-6 of all gradients together.
inline void expect_gradient(std::vector<float> ours, const std::vector<float>& theirs, double total,
                            const std::string& name) {
  ASSERT_EQ(ours.size(), theirs.size()) << name;
  const double size = norm(theirs);
  for (std::size_t i = 0; i < ours.size(); ++i) ours[i] -= theirs[i];
  EXPECT_LT(norm(ours), 2e-3 * size + 1e-6 * total) << name;
}

}  // namespace fathom::test
