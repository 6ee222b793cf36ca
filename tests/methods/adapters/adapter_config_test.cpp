// adapter_config.json, targets and merging: what is read, what is refused and by which words.

#include "methods/adapters/adapter_config.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "methods/adapters/loreft.h"
#include "methods/adapters/merge.h"
#include "methods/adapters/targets.h"
#include "methods/adapters/tensors.h"
#include "tests/support/expect_error.h"

namespace fathom::methods::adapters {
namespace {

using testing::expect_error;

model::ModelSpec small_model() {
  model::ModelSpec model;
  model.hidden = 16;
  model.layers = 2;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 4;
  model.ffn = 24;
  return model;
}

AdapterSpec lora(std::vector<std::string> targets, int rank = 4) {
  AdapterSpec spec;
  spec.kind = Kind::lora;
  spec.rank = rank;
  spec.targets = std::move(targets);
  return spec;
}

TEST(AdapterTargets, MatchAsPeftDoes) {
  const AdapterSpec spec = resolve(lora({"q_proj", "self_attn.o_proj"}), small_model());
  EXPECT_TRUE(targets(spec, "model.layers.1.self_attn.q_proj", 1));
  EXPECT_TRUE(targets(spec, "model.layers.1.self_attn.o_proj", 1));
  EXPECT_FALSE(targets(spec, "model.layers.1.self_attn.k_proj", 1));
  EXPECT_FALSE(targets(lora({"proj"}), "model.layers.1.self_attn.q_proj", 1));
  EXPECT_TRUE(targets(lora({"regex:.*\\.1\\..*_proj"}), "model.layers.1.mlp.up_proj", 1));
  EXPECT_EQ(resolve(lora({}), small_model()).targets,
            (std::vector<std::string>{"q_proj", "v_proj"}));
}

TEST(AdapterTargets, RefuseWhatDoesNotFitTheModel) {
  const auto refused = [](AdapterSpec spec) { return [spec] { resolve(spec, small_model()); }; };
  expect_error(ErrorKind::config, refused(lora({"c_attn"})), "adapter.targets", "'c_attn'",
               "q_proj");
  expect_error(ErrorKind::config, refused(lora({"regex:("})), "adapter.targets",
               "no regular expression");
  expect_error(ErrorKind::config, refused(lora({"k_proj"}, 9)), "adapter.rank = 9", "k_proj",
               "at most 8");
  expect_error(ErrorKind::config, refused(lora({"q_proj", "nothing"})), "'nothing'");
  AdapterSpec other_layer = lora({"regex:.*\\.0\\..*"});
  other_layer.layers = {1};
  expect_error(ErrorKind::config, refused(other_layer), "adapter.targets", "adapter.layers");
  AdapterSpec beyond = lora({});
  beyond.layers = {0, 2};
  expect_error(ErrorKind::config, refused(beyond), "adapter.layers", "layer 2", "0 to 1");
}

// Of a published folder one target is enough; what is left says what it adapts.
TEST(AdapterTargets, OfAFolderMayBeForModelsWithMoreLayers) {
  const AdapterSpec spec =
      resolve(lora({"qkv_proj", "q_proj", "fc1"}), small_model(), Unmatched::drop);
  EXPECT_EQ(spec.targets, std::vector<std::string>{"q_proj"});
  expect_error(
      ErrorKind::config,
      [] {
        resolve(lora({"qkv_proj", "fc1"}), small_model(), Unmatched::drop);
      },
      "none of qkv_proj, fc1", "q_proj");
}

TEST(AdapterConfig, SurvivesTheRoundTrip) {
  for (const Kind kind :
       {Kind::lora, Kind::dora, Kind::vera, Kind::loreft, Kind::parallel_control, Kind::molex}) {
    AdapterSpec spec;
    spec.kind = kind;
    spec.rank = 5;
    spec.layers = {1};
    spec.sites = Sites::mlp;
    spec.suffix = 3;
    spec.own_share = 0.25;
    if (spec.on_linear_layers()) spec.targets = {"q_proj", "o_proj"};
    const std::string text = adapter_config(spec, small_model(), "base");
    const AdapterSpec again = parse_adapter_config(text, "a.json");
    EXPECT_EQ(again.kind, kind);
    EXPECT_EQ(again.targets, spec.targets);
    EXPECT_EQ(adapter_config(again, small_model(), "base"), text);
  }
}

nlohmann::json written(const AdapterSpec& spec) {
  return nlohmann::json::parse(adapter_config(spec, small_model(), "base"));
}

// peft reads "all-linear" and expressions where they stand alone and for all layers; elsewhere a
// list of whole names says the same.
TEST(AdapterConfig, NamesModulesWherePeftWouldNotUnderstand) {
  EXPECT_EQ(written(lora({"all-linear"})).at("target_modules"), "all-linear");
  EXPECT_EQ(written(lora({"regex:.*q_proj"})).at("target_modules"), ".*q_proj");
  AdapterSpec plain = lora({"q_proj"});
  plain.layers = {1};
  EXPECT_EQ(written(plain).at("target_modules"), nlohmann::json::array({"q_proj"}));
  EXPECT_EQ(written(plain).at("layers_to_transform"), nlohmann::json::array({1}));

  const std::string block = "model.layers.1.";
  AdapterSpec layer = lora({"regex:.*\\.(q|o)_proj"});
  layer.layers = {1};
  EXPECT_EQ(written(layer).at("target_modules"),
            nlohmann::json::array({block + "self_attn.q_proj", block + "self_attn.o_proj"}));
  EXPECT_FALSE(written(layer).contains("layers_to_transform"));
  AdapterSpec all = lora({"all-linear"});
  all.layers = {1};
  EXPECT_EQ(written(all).at("target_modules").size(), 7u);
  EXPECT_EQ(written(lora({"o_proj", "regex:.*1.*q_proj"})).at("target_modules"),
            nlohmann::json::array({"model.layers.0.self_attn.o_proj", block + "self_attn.q_proj",
                                   block + "self_attn.o_proj"}));
  for (const AdapterSpec& spec : {layer, all}) {
    const AdapterSpec again =
        parse_adapter_config(adapter_config(spec, small_model(), ""), "a.json");
    for (const Module& module : linear_modules(small_model()))
      EXPECT_EQ(targets(again, module.name, module.layer), targets(spec, module.name, module.layer))
          << module.name;
  }
}

// What we write of a folder that peft wrote has peft's keys, values and types, and no others.
TEST(AdapterConfig, IsWrittenAsPeftWritesIt) {
  for (const std::string family : {"gpt2", "llama"})
    for (const std::string kind : {"lora", "dora", "vera"}) {
      SCOPED_TRACE(family + " " + kind);
      const std::string folder = std::string(FATHOM_TEST_DATA) + "/golden/models/" + family + "/";
      const auto model =
          model::parse_config(files::read_text(folder + "config.json"), folder + "config.json");
      const std::string theirs =
          files::read_text(folder + "adapter-" + kind + "/adapter_config.json");
      const auto golden = nlohmann::json::parse(theirs);
      const auto ours = nlohmann::json::parse(
          adapter_config(parse_adapter_config(theirs, "a.json"), model, ".."));
      for (const auto& [key, value] : ours.items()) {
        ASSERT_TRUE(golden.contains(key)) << key;
        EXPECT_EQ(value, golden.at(key)) << key;
        EXPECT_STREQ(value.type_name(), golden.at(key).type_name()) << key;
        EXPECT_EQ(value.is_number_float(), golden.at(key).is_number_float()) << key;
      }
      for (const char* key : {"peft_type", "task_type", "r", "target_modules", "bias",
                              "base_model_name_or_path", "fan_in_fan_out"})
        EXPECT_TRUE(ours.contains(key)) << key;
    }
}

TEST(AdapterConfig, RefusesWhatChangesTheArithmetic) {
  const auto refused = [](const char* json) {
    return [json] { parse_adapter_config(json, "a.json"); };
  };
  expect_error(ErrorKind::data, refused("[]"), "a.json", "not a JSON object");
  expect_error(ErrorKind::data, refused(R"({"peft_type": "IA3"})"), "peft_type = 'IA3'", "LORA");
  expect_error(ErrorKind::data, refused(R"({"peft_type": "LORA", "rank_pattern": {"q": 2}})"),
               "rank_pattern", "is not supported");
  expect_error(ErrorKind::data, refused(R"({"peft_type": "LORA", "bias": "all"})"), "bias");
  expect_error(ErrorKind::data, refused(R"({"peft_type": "LORA", "init_lora_weights": "pissa"})"),
               "init_lora_weights", "merge such an adapter");
  expect_error(ErrorKind::data, refused(R"({"peft_type": "LORA", "init_lora_weights": "lora_ga"})"),
               "init_lora_weights", "lora_ga", "merge such an adapter");
  expect_error(ErrorKind::data, refused(R"({"peft_type": "VERA", "save_projection": false})"),
               "save_projection");
  expect_error(ErrorKind::data, refused(R"({"peft_type": "PARALLEL_CONTROL", "sites": "mpl"})"),
               "sites", "mpl", "attention");
  expect_error(ErrorKind::data, refused(R"({"peft_type": "LORA", "r": "four"})"),
               "r = ", "wrong type");
}

// A square weight that is stored [in, out], where scaling the wrong axis goes unnoticed by shapes.
TEST(AdapterMerge, DoraScalesOutputsInEitherLayout) {
  AdapterSpec spec = lora({}, 1);
  spec.kind = Kind::dora;
  spec.alpha = 0.5;
  const ReadTensor read = [](const std::string& name) -> std::vector<float> {
    if (name.ends_with("lora_A.weight")) return {1, 0};
    if (name.ends_with("lora_B.weight")) return {2, 0};
    return {10, 5};
  };
  const Module module{"m", 0, 2, 2};
  std::vector<float> out_in = {3, 4, 0, 5}, in_out = {3, 0, 4, 5};
  merge(spec, module, autograd::WeightLayout::out_in, read, out_in);
  merge(spec, module, autograd::WeightLayout::in_out, read, in_out);
  EXPECT_EQ(out_in, (std::vector<float>{7.0710678f, 7.0710678f, 0, 5}));
  EXPECT_EQ(in_out, (std::vector<float>{7.0710678f, 0, 7.0710678f, 5}));
}

TEST(Loreft, EditsAtMostHalfAPromptAtEachEnd) {
  AdapterSpec spec;
  const EditedRows rows = edited_rows(spec, {{100, 20}, {200, 9}, {300, 1}});
  EXPECT_EQ(rows.prefix,
            (std::vector<std::int32_t>{100, 101, 102, 103, 104, 105, 106, 200, 201, 202, 203}));
  EXPECT_EQ(rows.suffix,
            (std::vector<std::int32_t>{113, 114, 115, 116, 117, 118, 119, 205, 206, 207, 208}));
}

}  // namespace
}  // namespace fathom::methods::adapters
