// Every way of tuning a frozen model, as a user runs it on two ranks: what is resumed on another
// grid loses what the first run lost, and the run's folder generates, is evaluated and exported.

#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "tests/launch/program.h"
#include "tests/support/run_metrics.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Method {
  const char* name;
  const char* options;
  const char* first_grid = "--grid.pp=2";
  const char* other_grid = "--grid.tp=2";
  bool merges = true;
};

std::ostream& operator<<(std::ostream& out, const Method& method) {
  return out << method.name;
}

class Tuning : public ::testing::TestWithParam<Method> {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::TemporaryDirectory();
    testing::write_model(*files_ / "model", {.vocab = 1024}, 7);
    testing::copy_shakespeare(*files_ / "model");
    testing::write_tokens(*files_ / "tokens.h5", 40, 2, 40, 1024, 3, testing::shakespeare());
  }
  static void TearDownTestSuite() { delete files_; }

  static Outcome in_folder(const std::string& command) {
    return shell("cd " + files_->path().string() + "\n" + command, 60);
  }
  static Outcome succeed(const std::string& command) {
    Outcome outcome = in_folder(command);
    EXPECT_EQ(outcome.code, 0) << command << "\n" << outcome.text;
    return outcome;
  }

  /// Four steps, saving every other.
  static std::string train(const std::string& run, const std::string& more) {
    return "$FATHOM train --run.dir=" + run +
           " --run.steps=4 --run.save_every=2 --model.path=model --data.train=tokens.h5 "
           "--batch.micro_batch=2 --batch.micro_batches=2 --schedule.kind=constant "
           "--optim.lr=0.02 --log.tensorboard=false " +
           more;
  }

  /// The steps in a run's metrics.
  static std::vector<json> steps_of(const std::string& run) {
    return testing::metrics_of(*files_ / run, "step");
  }

  /// The run `run` as it was after two steps.
  static void copy_half(const std::string& run, const std::string& copy) {
    fs::copy(*files_ / run, *files_ / copy, fs::copy_options::recursive);
    fs::remove_all(*files_ / copy / "step_00000004");
    fs::remove(*files_ / copy / "LATEST");
  }

  static double loss_of(const std::string& evaluation) {
    succeed(evaluation + " --data=tokens.h5 --output=out.json");
    return json::parse(files::read_text(*files_ / "out.json")).at("loss");
  }
  static std::string generate(const std::string& source) {
    return "$FATHOM generate --prompt='To be' --max-new=6 " + source + " 2>/dev/null";
  }

  inline static testing::TemporaryDirectory* files_ = nullptr;
};

TEST_P(Tuning, ResumesElsewhereGeneratesIsEvaluatedAndExported) {
  const Method& method = GetParam();
  const std::string run = method.name, again = run + "_again", options = method.options;
  succeed("$MPIRUN " + train(run, options + " " + method.first_grid));
  copy_half(run, again);
  const Outcome resumed = succeed("$MPIRUN " + train(again, options + " " + method.other_grid));
  EXPECT_TRUE(resumed.has("step_00000002")) << resumed.text;
  const auto straight = steps_of(run), halves = steps_of(again);
  ASSERT_EQ(straight.size(), 4u);
  ASSERT_EQ(halves.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const double loss = straight[i].at("loss");
    EXPECT_NEAR(halves[i].at("loss"), loss, 2e-5 * loss) << "step " << i + 1;
  }

  const std::string checkpoint = " --checkpoint=" + again;
  const double loss = loss_of("$FATHOM evaluate" + checkpoint);
  EXPECT_NEAR(loss_of("$MPIRUN $FATHOM evaluate --tp=2" + checkpoint), loss, 1e-5 * loss);
  EXPECT_NEAR(loss_of("$MPIRUN $FATHOM evaluate --dp=2" + checkpoint), loss, 1e-5 * loss);
  static const double untrained = loss_of("$FATHOM evaluate --model=model");
  EXPECT_GT(std::abs(untrained - loss), 1e-3 * loss) << "what was trained is not there";
  const Outcome text = succeed(generate(checkpoint));
  EXPECT_EQ(succeed("$MPIRUN " + generate("--tp=2" + checkpoint)).text, text.text);

  const std::string exporting = "$FATHOM checkpoint export " + again + " --output=" + run;
  const Outcome merged = in_folder(exporting + "_merged");
  if (method.merges) {
    ASSERT_EQ(merged.code, 0) << merged.text;
    EXPECT_NEAR(loss_of("$FATHOM evaluate --model=" + run + "_merged"), loss, 1e-5 * loss);
  } else {
    expect_refused(merged, 2, again);
  }
  const Outcome folder = in_folder(exporting + "_folder --adapter=peft");
  if (run == "moc") {
    expect_refused(folder, 2, again, "mixture of control");
    return;
  }
  ASSERT_EQ(folder.code, 0) << folder.text;
  const std::string loaded = " --model=model --adapter=" + run + "_folder";
  EXPECT_NEAR(loss_of("$FATHOM evaluate" + loaded), loss, 1e-6 * loss);
  EXPECT_EQ(succeed(generate(loaded)).text, text.text);
}

INSTANTIATE_TEST_SUITE_P(
    Methods, Tuning,
    ::testing::Values(
        Method{"lora", "--adapter.kind=lora --adapter.rank=4 --adapter.dropout=0.1"},
        Method{"dora", "--adapter.kind=dora --adapter.rank=4 --adapter.targets=all-linear"},
        Method{"vera", "--adapter.kind=vera --adapter.rank=16 --adapter.d_initial=0.5"},
        Method{"loreft",
               "--adapter.kind=loreft --adapter.rank=4 --adapter.prefix=2 "
               "--adapter.suffix=2",
               "--grid.pp=2", "--grid.dp=2", false},
        Method{"control", "--adapter.kind=parallel_control --adapter.rank=4", "--grid.dp=2",
               "--grid.pp=2", false},
        Method{"molex", "--adapter.kind=molex --adapter.rank=4 --adapter.own_share=0.7",
               "--grid.tp=2", "--grid.dp=2", false},
        Method{"moc", "--moc.enabled --moc.rank=4 --moc.top_k=2 --moc.alpha=0.7", "--grid.pp=2",
               "--grid.dp=2", false}),
    [](const auto& method) { return std::string(method.param.name); });

// What a rank received of other stages' controls, as counted, is what the dry run foretells.
TEST_F(Tuning, BytesOfTheBank) {
  const std::string options =
      train("bank", "--grid.pp=2 --grid.layers=3,1 --moc.enabled --moc.rank=4 --moc.sites=mlp ");
  const std::string foretold = succeed(options + "--dry-run").text;
  const std::string before = "the bank receives ";
  const std::size_t at = foretold.find(before);
  ASSERT_NE(at, std::string::npos) << foretold;
  // Three layers of A [4, 64] and B [64, 4] in f32 from the other stage.
  EXPECT_EQ(std::stoll(foretold.substr(at + before.size())), 3 * 2 * 4 * 64 * 4);
  const Outcome trained = succeed("$MPIRUN " + options);
  EXPECT_TRUE(trained.has("moc.top_k = 1 with moc.softmax = topk_softmax")) << trained.text;
  const auto steps = steps_of("bank");
  ASSERT_EQ(steps.size(), 4u);
  for (const json& step : steps)
    EXPECT_EQ(step.at("more").at("moc_bank_bytes").get<std::int64_t>(),
              2 * std::stoll(foretold.substr(at + before.size())))
        << "values, and as many of gradients";
}

TEST_F(Tuning, MemoryIsALookAtTheRun) {
  const std::string lora = "--adapter.kind=lora --adapter.rank=4 --grid.pp=2 ";
  succeed("$MPIRUN " + train("looked_at", lora));
  fs::create_directory(*files_ / "looked_at/step_00000009.tmp");  // as of a save under way
  const auto contents = [] {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(*files_ / "looked_at"))
      files[entry.path().string()] =
          entry.is_regular_file() ? files::read_text(entry.path()) : "folder";
    return files;
  };
  const auto before = contents();
  ASSERT_TRUE(before.contains((*files_ / "looked_at/metrics.jsonl").string()));
  const Outcome look = succeed("$MPIRUN " + train("looked_at", lora + "--memory"));
  for (const char* part : {"rank 0", "rank 1", "lora_A", " parameters are trained"})
    EXPECT_TRUE(look.has(part)) << part << " is not in: " << look.text;
  EXPECT_EQ(contents(), before);
  succeed("$MPIRUN " + train("unmade", lora + "--memory"));
  EXPECT_FALSE(fs::exists(*files_ / "unmade"));
}

// Of two tokens one has more than half of the mean.
TEST_F(Tuning, WarnsOfATokenThatDecidesAlone) {
  testing::write_tokens(*files_ / "pairs.h5", 40, 2, 2, 1024, 3, testing::shakespeare());
  const std::string moc =
      "--data.train=pairs.h5 --batch.micro_batch=1 --moc.enabled --moc.rank=4 --moc.top_k=2 ";
  EXPECT_TRUE(succeed(train("pairs", moc)).has("% of the mean state that a gate scores"));
  EXPECT_FALSE(succeed(train("votes", moc + "--moc.aggregate=mode")).has("that a gate scores"));
}

TEST_F(Tuning, WhatCannotBe) {
  const auto dry = [&](const std::string& options) {
    return in_folder(train("refused", options + " --dry-run"));
  };
  const std::string lora = "--adapter.kind=lora ";
  expect_refused(dry(lora + "--adapter.targets=q_proj,nothing"), 2, "adapter.targets", "nothing",
                 "q_proj");
  expect_refused(dry(lora + "--adapter.rank=65"), 2, "adapter.rank = 65", "q_proj", "at most 64");
  expect_refused(dry("--adapter.kind=loreft --adapter.rank=65"), 2, "adapter.rank = 65", "64");
  expect_refused(dry("--moc.enabled --moc.rank=65"), 2, "moc.rank = 65", "64");
  expect_refused(dry("--moc.enabled --moc.top_k=5"), 2, "moc.top_k = 5", "4 layers");
  expect_refused(dry(lora + "--moc.enabled"), 2, "moc.enabled", "adapter.kind", "stacked");
  expect_refused(dry("--adapter.kind=lore"), 2, "adapter.kind", "lore", "loreft");
  expect_refused(dry(lora + "--adapter.rnk=4"), 2, "adapter.rnk", "adapter.rank");
  expect_refused(dry("--adapter.kind=molex --grid.pp=2"), 2, "adapter.kind = molex", "grid.pp = 2",
                 "frozen weights");
  expect_refused(dry("--adapter.kind=molex --adapter.layers=1"), 2, "adapter.layers");
  expect_refused(dry(lora + "--adapter.own_share=0.5"), 2, "adapter.own_share", "molex");
  expect_refused(dry("--moc.enabled --moc.scope=global"), 2, "moc.scope", "batch.micro_batches",
                 "grid.dp");
  expect_refused(dry("--moc.enabled --moc.balance_scope=global"), 2, "moc.balance_scope",
                 "batch.micro_batches");
  expect_refused(dry("--moc.enabled --moc.eval_scope=global"), 2, "moc.eval_scope");
  // What is trained besides, or frozen, by names that the model must have.
  expect_refused(dry(lora + "--adapter.targets=\"regex:.*\\.0\\..*q_proj\" --adapter.layers=1"), 2,
                 "adapter.targets", "adapter.layers");
  expect_refused(dry(lora + "--adapter.train=score.weight"), 2, "adapter.train", "score.weight",
                 "model.embed_tokens.weight");
  expect_refused(dry(lora + "--adapter.train=model.norm.weight,lm_head.weight"), 2, "adapter.train",
                 "lm_head.weight", "its head is its embedding, model.embed_tokens.weight");
  expect_refused(dry(lora + "--adapter.train=*.0.mlp.up_proj.weight"), 2, "adapter.train",
                 "0.mlp.up_proj.weight", "0.mlp.gate_proj.weight", "both or none");
  expect_refused(dry(lora + "--adapter.train=*.0.self_attn.*.weight"), 2, "adapter.train",
                 "0.self_attn.q_proj.weight", "has an adapter");
  expect_refused(dry("--model.freeze=model.embed*,*.wte.*"), 2, "model.freeze", "*.wte.*",
                 "matches no parameter");
  expect_refused(dry("--model.freeze=model.embed*,*layers*,*.norm.*"), 2, "model.freeze",
                 "nothing is left to train");
  EXPECT_FALSE(fs::exists(*files_ / "refused")) << "nothing is touched";
}

// What the model learnt is in no peft folder; the whole model has it.
TEST_F(Tuning, APeftFolderThatWouldLosePartsIsRefused) {
  const Outcome trained = succeed(
      train("besides", "--adapter.kind=lora --adapter.rank=4 --adapter.train=model.norm.weight"));
  // q_proj and v_proj of 4 layers, width 64 and two heads of 16 for values; and the norm.
  EXPECT_TRUE(trained.has(str("trained: ", 4 * 4 * (2 * 64 + 64 + 32) + 64, " of ")))
      << trained.text;
  const std::string exporting = "$FATHOM checkpoint export besides --output=";
  expect_refused(in_folder(exporting + "besides_folder --adapter=peft"), 2, "--adapter=peft",
                 "model.norm.weight", "--adapter=merged");
  EXPECT_FALSE(fs::exists(*files_ / "besides_folder"));
  succeed(exporting + "besides_merged");
  const double loss = loss_of("$FATHOM evaluate --checkpoint=besides");
  EXPECT_NEAR(loss_of("$FATHOM evaluate --model=besides_merged"), loss, 1e-5 * loss);
}

// A published folder may name modules that only other models have; what its tensors are decides.
TEST_F(Tuning, AFolderForModelsWithMoreLayers) {
  succeed(train("more", "--adapter.kind=lora --adapter.rank=4"));
  succeed("$FATHOM checkpoint export more --output=more_folder --adapter=peft");
  const fs::path path = *files_ / "more_folder/adapter_config.json";
  json config = json::parse(files::read_text(path));
  config["target_modules"] = {"qkv_proj", "q_proj", "v_proj"};
  files::write_text_atomically(path, config.dump());
  const double loss = loss_of("$FATHOM evaluate --checkpoint=more");
  EXPECT_NEAR(loss_of("$FATHOM evaluate --model=model --adapter=more_folder"), loss, 1e-6 * loss);
  config["target_modules"] = {"qkv_proj", "k_proj"};
  files::write_text_atomically(path, config.dump());
  expect_refused(in_folder("$FATHOM evaluate --data=tokens.h5 --model=model --adapter=more_folder"),
                 3, "more_folder/adapter_model.safetensors", "lacks", "k_proj");
}

TEST_F(Tuning, WarnsOfParametersThatLearnNothing) {
  const std::string molex = "--run.steps=1 --adapter.kind=molex --adapter.rank=4 ";
  EXPECT_TRUE(succeed(train("unbalanced", molex + "--adapter.balance=0")).has("keep the random"));
  EXPECT_FALSE(succeed(train("balanced", molex)).has("keep the random"));
  const std::string loreft = "--run.steps=1 --adapter.kind=loreft --adapter.rank=4 ";
  // A record of two tokens has a prompt of one at most.
  EXPECT_TRUE(succeed(train("prompts", loreft)).has(" of 40 records lack one of two tokens"));
  testing::write_tokens(*files_ / "bare.h5", 40, 2, 2, 1024, 3, testing::shakespeare());
  EXPECT_TRUE(succeed(train("bare", loreft + "--data.train=bare.h5")).has("nothing is learnt"));
}

// Results can only be compared with what they are results of.
TEST_F(Tuning, EvaluationSaysWhatItScored) {
  const auto facts_of = [](const std::string& source) {
    succeed("$FATHOM evaluate --data=tokens.h5 --batch=4 --output=out.json " + source);
    return json::parse(files::read_text(*files_ / "out.json"));
  };
  succeed(train("said", "--adapter.kind=dora --adapter.rank=4 --loss.on_prompt=true"));
  const json dora = facts_of("--checkpoint=said");
  EXPECT_EQ(dora.at("method"), "dora");
  EXPECT_EQ(dora.at("adapter").at("r"), 4);
  EXPECT_EQ(dora.at("loss_on_prompt"), true);
  EXPECT_FALSE(dora.contains("route_scope"));
  const json base = facts_of("--model=model");
  EXPECT_EQ(base.at("method"), "none");
  EXPECT_FALSE(base.contains("loss_on_prompt")) << "nothing is known of its training";

  succeed(train("routed", "--moc.enabled --moc.rank=4 --moc.top_k=2 --moc.alpha=0.5"));
  const json sequence = facts_of("--checkpoint=routed"),
             batch = facts_of("--checkpoint=routed --route-scope=microbatch");
  EXPECT_EQ(sequence.at("method"), "moc");
  EXPECT_EQ(sequence.at("loss_on_prompt"), false);
  EXPECT_EQ(sequence.at("moc").at("top_k"), 2);
  EXPECT_EQ(sequence.at("route_scope"), "sequence");
  EXPECT_EQ(batch.at("route_scope"), "microbatch");
  EXPECT_NE(batch.at("loss"), sequence.at("loss"));
  EXPECT_EQ(facts_of("--checkpoint=routed --route-scope=sequence").at("loss"), sequence.at("loss"));
  expect_refused(
      in_folder("$FATHOM evaluate --checkpoint=said --data=tokens.h5 --route-scope=microbatch"), 2,
      "--route-scope", "no mixture of control");
}

TEST_F(Tuning, AdapterFoldersThatDoNotFit) {
  succeed(train("for_folder", "--adapter.kind=lora --adapter.rank=4 --run.steps=1"));
  succeed("$FATHOM checkpoint export for_folder --output=folder --adapter=peft");
  testing::write_model(*files_ / "wider", {.hidden = 96, .ffn = 120, .vocab = 1024}, 7);
  const std::string with = " --adapter.path=";
  expect_refused(in_folder(train("fit", "--model.path=wider" + with + "folder")), 3,
                 "folder/adapter_model.safetensors", "lora_A", "another model");
  const auto change = [&](const std::string& name, const json& changes) {
    fs::copy(*files_ / "folder", *files_ / name);
    json config = json::parse(files::read_text(*files_ / "folder/adapter_config.json"));
    config.update(changes);
    files::write_text_atomically(*files_ / name / "adapter_config.json", config.dump());
    return in_folder("$MPIRUN " + train("fit", "--grid.pp=2" + with + name));
  };
  expect_refused(change("other_rank", {{"r", 5}}), 3, "other_rank/adapter_model.safetensors",
                 "lora_A", "[4, 64]", "[5, 64]");
  expect_refused(change("unknown", {{"use_magic", true}}), 3, "unknown/adapter_config.json",
                 "use_magic");
  expect_refused(change("sites", {{"peft_type", "PARALLEL_CONTROL"}, {"sites", "mpl"}}), 3,
                 "sites/adapter_config.json", "sites", "mpl");
  expect_refused(in_folder(train("fit", "--adapter.kind=lora" + with + "folder")), 2,
                 "adapter.kind", "adapter.path");
  expect_refused(in_folder("$FATHOM evaluate --checkpoint=for_folder --adapter=folder "
                           "--data=tokens.h5"),
                 2, "--adapter");
  EXPECT_FALSE(fs::exists(*files_ / "fit")) << "nothing is touched";
}

}  // namespace
}  // namespace fathom::launch
