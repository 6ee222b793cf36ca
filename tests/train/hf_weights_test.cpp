// Which files of weights a model may have beside its config.json.

#include "train/hf_weights.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/golden.h"
#include "tests/support/temporary_directory.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;
using checkpoints::SafetensorsReader;

/// A golden model's folder with its tensors under other names, and more of them.
class HfWeightsOf : public ::testing::Test {
 protected:
  void write(const std::string& model, const std::string& dropped_prefix,
             const std::vector<std::string>& more) {
    const fs::path golden = test::golden("models/" + model);
    fs::copy_file(golden / "config.json", folder_ / "config.json",
                  fs::copy_options::overwrite_existing);
    const SafetensorsReader reader(golden);
    std::vector<checkpoints::SafetensorsPlan> plan;
    std::map<std::string, std::string> sources;
    for (const auto& [name, entry] : reader.tensors()) {
      const bool shorter = !dropped_prefix.empty() && name.starts_with(dropped_prefix);
      plan.push_back(
          {shorter ? name.substr(dropped_prefix.size()) : name, entry.element, entry.shape});
      sources[plan.back().name] = name;
    }
    for (const std::string& name : more) plan.push_back({name, checkpoints::Element::f32, {2}});
    checkpoints::write_safetensors(
        folder_ / "model.safetensors", plan,
        [&](const checkpoints::SafetensorsPlan& entry, checkpoints::SafetensorsSink& sink) {
          const auto source = sources.find(entry.name);
          sink.put(source == sources.end() ? std::vector<float>(2)
                                           : reader.read_f32(source->second));
        });
  }

  testing::TemporaryDirectory folder_;
};

TEST_F(HfWeightsOf, GoldenModelsAreComplete) {
  for (const char* model : {"gpt2", "opt", "opt-postln", "llama", "llama3", "mistral", "qwen2"})
    EXPECT_NO_THROW(HfWeights(test::golden(std::string("models/") + model))) << model;
}

TEST_F(HfWeightsOf, BuffersAndTheRepeatedHeadAreNoParameters) {
  write("gpt2", "",
        {"lm_head.weight", "transformer.h.0.attn.bias", "transformer.h.1.attn.bias",
         "transformer.h.0.attn.masked_bias"});
  EXPECT_NO_THROW(HfWeights(folder_.path()));
  write("gpt2", "transformer.", {"h.0.attn.bias"});
  EXPECT_NO_THROW(HfWeights(folder_.path())) << "as the file of the published gpt2";
  write("llama", "", {"model.layers.0.self_attn.rotary_emb.inv_freq"});
  EXPECT_NO_THROW(HfWeights(folder_.path()));
}

TEST_F(HfWeightsOf, WhatTheModelDoesNotHaveIsRefused) {
  const auto refused = [&](const std::string& model, const std::vector<std::string>& more,
                           const auto&... parts) {
    write(model, "", more);
    testing::expect_error(
        ErrorKind::data, [&] { HfWeights weights(folder_.path()); }, folder_.path().string(),
        parts...);
  };
  refused("llama", {"score.weight"}, ": 1 tensors", "score.weight");
  // A bias that the config leaves out.
  refused("llama", {"model.layers.2.self_attn.q_proj.bias"},
          "model.layers.2.self_attn.q_proj.bias");
  refused("llama", {"a", "b", "c", "d"}, ": 4 tensors", "a, b, c and others", "llama, 4 layers");
  // The same parameter twice, with and without the prefix: only one of them would be read.
  refused("gpt2", {"wte.weight"}, ": 1 tensors", "wte.weight");
}

}  // namespace
}  // namespace fathom::train
