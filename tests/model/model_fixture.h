#pragma once

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <vector>

#include "model/spec.h"
#include "model/stage.h"
#include "tests/support/test_data.h"

namespace fathom::test {

inline const std::string kGoldenModels[] = {"gpt2", "llama",      "llama3", "mistral",
                                            "opt",  "opt-postln", "qwen2"};

/// config.json of a golden model.
inline std::string golden_config(const std::string& model) {
  const std::string path = test_data("golden/models/" + model + "/config.json");
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline model::ModelSpec golden_spec(const std::string& model) {
  return model::parse_config(golden_config(model), model + "/config.json");
}

/// The places of a pp x tp grid, layers divided evenly.
inline std::vector<model::StagePlan> places(const model::ModelSpec& spec, int pp, int tp) {
  std::vector<model::StagePlan> plans;
  for (int stage = 0; stage < pp; ++stage)
    for (int rank = 0; rank < tp; ++rank)
      plans.push_back({.first_layer = spec.layers * stage / pp,
                       .end_layer = spec.layers * (stage + 1) / pp,
                       .has_embedding = stage == 0,
                       .has_head = stage == pp - 1,
                       .shard = model::make_shard(spec, rank, tp, spec.vocab)});
  return plans;
}

/// True for the combinations that the golden models can be laid out on.
inline bool fits(const model::ModelSpec& spec, int tp) {
  return (", " + model::allowed_tp(spec) + ", ").find(", " + std::to_string(tp) + ", ") !=
         std::string::npos;
}

}  // namespace fathom::test
