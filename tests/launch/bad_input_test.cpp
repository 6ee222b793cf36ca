// What a user may get wrong, asked of the program itself, on two ranks where they could disagree:
// one message, its exit code, no hang, and earlier checkpoints as they were.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "checkpoints/run_lock.h"
#include "checkpoints/safetensors.h"
#include "core/files.h"
#include "data/spans/span_file.h"
#include "tests/launch/program.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

namespace fs = std::filesystem;
using checkpoints::SafetensorsReader;

/// Copies a model's weights, changed by `edit`; a tensor that is left without values is dropped.
void edit_weights(const fs::path& from, const fs::path& to,
                  const std::function<void(const std::string&, std::vector<float>&)>& edit) {
  fs::create_directories(to);
  fs::copy_file(from / "config.json", to / "config.json");
  const SafetensorsReader reader(from);
  std::vector<checkpoints::SafetensorsPlan> plan;
  std::map<std::string, std::vector<float>> tensors;
  for (const auto& [name, entry] : reader.tensors()) {
    std::vector<float> values = reader.read_f32(name);
    edit(name, values);
    if (values.empty()) continue;
    plan.push_back({name, checkpoints::Element::f32, entry.shape});
    tensors[name] = std::move(values);
  }
  checkpoints::write_safetensors(to / "model.safetensors", plan,
                                 [&](const auto& entry, checkpoints::SafetensorsSink& sink) {
                                   sink.put(tensors.at(entry.name));
                                 });
}

class BadInput : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::TemporaryDirectory();
    testing::write_model(*files_ / "model", {}, 7);
    testing::write_tokens(*files_ / "tokens.h5", 40, 2, 40, 503, 3);
  }
  static void TearDownTestSuite() { delete files_; }

  /// A command in the folder of the files.
  static Outcome in_folder(const std::string& command) {
    return shell("cd " + files_->path().string() + "\n" + command);
  }

  /// Options of a run of two steps, saving each, into the folder `run`.
  static std::string train(const std::string& run, const std::string& more = "") {
    return "$FATHOM train --run.dir=" + run +
           " --run.steps=2 --run.save_every=1 --model.path=model --data.train=tokens.h5 "
           "--batch.micro_batch=2 --batch.micro_batches=2 --schedule.kind=constant "
           "--log.tensorboard=false " +
           more;
  }
  static Outcome train_alone(const std::string& run, const std::string& more) {
    return in_folder(train(run, more));
  }
  static Outcome train_on_two(const std::string& run, const std::string& more) {
    return in_folder("$MPIRUN " + train(run, "--grid.pp=2 " + more));
  }

  /// Probes the model on one row of ids.
  static Outcome probe(const std::vector<std::int64_t>& ids, const std::string& output) {
    checkpoints::write_safetensors(
        *files_ / "ids.safetensors",
        {{"input_ids", checkpoints::Element::i64, {1, static_cast<std::int64_t>(ids.size())}}},
        [&](const auto&, checkpoints::SafetensorsSink& sink) {
          sink.put_bytes(std::as_bytes(std::span(ids)));
        });
    return in_folder(
        "$MPIRUN $FATHOM probe --model.path=model --grid.pp=2 --input=ids.safetensors --output=" +
        output);
  }

  /// A run with the checkpoints of steps 1 and 2, made once.
  static void make_finished_run(const std::string& run) {
    static const Outcome made = train_on_two("finished", "");
    ASSERT_EQ(made.code, 0) << made.text;
    fs::copy(*files_ / "finished", *files_ / run, fs::copy_options::recursive);
  }

  inline static testing::TemporaryDirectory* files_ = nullptr;
};

TEST_F(BadInput, UnknownKeys) {
  expect_refused(in_folder("$FATHOM train --optim.lrr=1"), 2, "optim.lrr", "optim.lr");
  files::write_text_atomically(*files_ / "recipe.ini", "[run]\nsteps = 2\nstepz = 3\n");
  expect_refused(in_folder("$FATHOM train recipe.ini"), 2, "recipe.ini:3", "run.stepz",
                 "run.steps");
  expect_refused(in_folder("$FATHOM trian"), 2, "trian", "train");
}

TEST_F(BadInput, ImpossibleGrids) {
  testing::write_model(*files_ / "wide", {.hidden = 96, .heads = 6, .kv_heads = 2, .ffn = 120}, 7);
  testing::write_model(*files_ / "narrow", {.vocab = 3}, 7);
  const auto dry = [&](const std::string& options) {
    return train_alone("grids", options + " --dry-run");
  };
  expect_refused(dry("--grid.tp=3"), 2, "grid.tp = 3", "4 attention heads", "allowed: 1, 2, 4");
  expect_refused(dry("--model.path=wide --grid.tp=3"), 2, "2 key/value heads", "allowed: 1, 2");
  expect_refused(dry("--model.path=narrow --grid.tp=4"), 2, "vocabulary of 3", "allowed: 1, 2");
  expect_refused(dry("--grid.pp=5"), 2, "grid.pp", "4 layers");
  expect_refused(dry("--grid.pp=2 --grid.layers=2,3"), 2, "grid.layers", "4");
  expect_refused(dry("--grid.dp=3"), 2, "batch.micro_batches", "grid.dp");
  EXPECT_FALSE(fs::exists(*files_ / "grids")) << "nothing is touched";
  expect_refused(train_on_two("grids", "--grid.tp=3"), 2, "allowed: 1, 2, 4");
}

TEST_F(BadInput, RanksThatAreNotTheGrid) {
  expect_refused(in_folder("$MPIRUN " + train("ranks")), 2, "needs 1 ranks but 2 are running");
  expect_refused(train_alone("ranks", "--grid.pp=2"), 2, "needs 2 ranks but 1 is running");
}

TEST_F(BadInput, WeightFiles) {
  const fs::path model = *files_ / "model";
  const auto refused = [&](const std::string& name, int code, const auto&... parts) {
    expect_refused(train_on_two("weights", "--model.path=" + name), code, parts...);
  };
  refused("nowhere", 4, "nowhere/config.json");

  fs::create_directory(*files_ / "missing");
  fs::copy_file(model / "config.json", *files_ / "missing/config.json");
  refused("missing", 4, "missing", "safetensors");

  fs::copy(model, *files_ / "truncated");
  const fs::path weights = *files_ / "truncated/model.safetensors";
  fs::resize_file(weights, fs::file_size(weights) - 1000);
  refused("truncated", 3, "truncated/model.safetensors");

  fs::copy(model, *files_ / "unlike");
  files::write_text_atomically(*files_ / "unlike/config.json", testing::config_json({.ffn = 128}));
  refused("unlike", 3, "model.layers.", ".mlp.", "112", "128");

  // The last layer: its tensors are rank 1's.
  edit_weights(model, *files_ / "absent", [](const std::string& name, std::vector<float>& values) {
    if (name == "model.layers.3.mlp.up_proj.weight") values.clear();
  });
  refused("absent", 3, "model.layers.3.mlp.up_proj.weight");

  edit_weights(model, *files_ / "nan", [](const std::string& name, std::vector<float>& values) {
    if (name == "model.layers.3.mlp.up_proj.weight")
      values[5] = std::numeric_limits<float>::quiet_NaN();
  });
  refused("nan", 6, "model.layers.3.mlp.up_proj.weight");

  // A layer that the config does not know of.
  fs::copy(model, *files_ / "beyond");
  files::write_text_atomically(*files_ / "beyond/config.json", testing::config_json({.layers = 3}));
  refused("beyond", 3, "beyond: 9 tensors", "3 layers", "model.layers.3.input_layernorm.weight",
          "and others");

  files::write_text_atomically(*files_ / "unlike/config.json", "{\"model_type\": \"llama\"");
  refused("unlike", 3, "unlike/config.json");
  files::write_text_atomically(*files_ / "unlike/config.json", R"({"model_type": "mamba"})");
  refused("unlike", 3, "model_type", "mamba");
}

TEST_F(BadInput, IdsThatDoNotFit32Bits) {
  constexpr std::int64_t kTurn = std::int64_t{1} << 32;
  expect_refused(probe({5, 6, kTurn + 7}, "probed"), 3, "ids.safetensors", "input_ids[0, 2]",
                 "4294967303");
  expect_refused(probe({-kTurn, 6}, "probed"), 3, "ids.safetensors", "input_ids[0, 0]",
                 "-4294967296");
  expect_refused(probe({5, 503}, "probed"), 3, "503");
  EXPECT_FALSE(fs::exists(*files_ / "probed"));
}

TEST_F(BadInput, FoldersThatAreThereOrCannotBe) {
  make_finished_run("source");
  const std::string exporting = "$FATHOM checkpoint export source --output=";
  const std::string weights = files::read_text(*files_ / "model/model.safetensors");
  expect_refused(in_folder(exporting + "model"), 2, "model exists already");
  expect_refused(in_folder("$FATHOM convert source model"), 2, "model exists already");
  EXPECT_EQ(files::read_text(*files_ / "model/model.safetensors"), weights);

  // A path below a file: what the standard library says of it is an error of files, with its code.
  expect_refused(in_folder(exporting + "tokens.h5/export"), 4, "tokens.h5/export",
                 "Not a directory");
  expect_refused(in_folder("$FATHOM convert model tokens.h5/converted"), 4, "tokens.h5/converted",
                 "Not a directory");
  expect_refused(probe({5, 6}, "tokens.h5/probed"), 4, "tokens.h5/probed", "Not a directory");
}

TEST_F(BadInput, TokenizersOfOtherModels) {
  testing::write_tokens(*files_ / "larger.h5", 5, 4, 8, 600, 1);
  expect_refused(train_on_two("tokenizer", "--data.train=larger.h5"), 3, "larger.h5", "600", "503");
  fs::copy(*files_ / "model", *files_ / "mixed");
  testing::copy_shakespeare(*files_ / "mixed");
  expect_refused(in_folder("$FATHOM generate --model=mixed --prompt=hello"), 3, "1024", "503");
}

// Every command that reads one refuses a token file of another tokenizer than the model's.
TEST_F(BadInput, TokenFilesOfOtherTokenizers) {
  testing::write_model(*files_ / "bard", {.vocab = 1024}, 7);
  testing::copy_shakespeare(*files_ / "bard");
  testing::write_tokens(*files_ / "bard.h5", 20, 4, 20, 503, 3, testing::shakespeare());
  const std::string own = data::TokenFile::open(*files_ / "bard.h5").info().tokenizer;
  const std::string options = " --run.steps=1 --model.path=bard --data.train=";
  const auto refused = [&](const std::string& command) {
    expect_refused(in_folder(command), 3, "tokens.h5: made with the tokenizer 0000000000000000",
                   own);
  };
  refused(train("foreign", options + "tokens.h5"));
  refused(train("foreign", options + "bard.h5 --data.eval=tokens.h5"));
  refused("$FATHOM evaluate --model=bard --data=tokens.h5");
  refused("$FATHOM pairs --model=bard --teacher=bard --tokens=tokens.h5 --output=p");
  refused("$FATHOM diagnose depth --model=bard --data=tokens.h5 --output=d");
  const auto accepted = [&](const std::string& command) {
    const Outcome outcome = in_folder(command);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_EQ(outcome.has("has no tokenizer"), false) << outcome.text;
  };
  accepted(train("any", options + "bard.h5 --data.eval=tokens.h5 --data.any_tokenizer"));
  accepted("$FATHOM evaluate --model=bard --data=tokens.h5 --any-tokenizer");
  // Without a tokenizer of the model's, files can only be compared with each other.
  refused(train("foreign", " --model.init=random --model.path= --model.config=" +
                               (*files_ / "model/config.json").string() +
                               " --data.train=bard.h5 --data.eval=tokens.h5"));
  const Outcome unknown = in_folder("$FATHOM evaluate --model=model --data=tokens.h5");
  EXPECT_EQ(unknown.code, 0) << unknown.text;
  EXPECT_TRUE(unknown.has("model: has no tokenizer")) << unknown.text;
}

TEST_F(BadInput, TeachersWithAnotherTokenizer) {
  const fs::path shakespeare = fs::path(FATHOM_SOURCE_DIR) / "data_tools/samples/shakespeare";
  for (const char* name : {"here", "same", "other"}) {
    fs::copy(*files_ / "model", *files_ / name);
    fs::copy_file(shakespeare / "tokenizer.json", *files_ / name / "tokenizer.json");
  }
  auto tokenizer = nlohmann::json::parse(files::read_text(shakespeare / "tokenizer.json"));
  auto& vocab = tokenizer.at("model").at("vocab");
  std::swap(vocab.at("a"), vocab.at("b"));
  files::write_text_atomically(*files_ / "other/tokenizer.json", tokenizer.dump());
  const int first = std::min(vocab.at("a").get<int>(), vocab.at("b").get<int>());
  const std::string options = "--model.path=here --loss.kd_weight=1 --teacher.path=";
  for (const std::string& command :
       {train("tokenizers", options + "other"), train("tokenizers", options + "other --dry-run")})
    expect_refused(in_folder(command), 3, "teacher.path = other",
                   "id " + std::to_string(first) + " is ", "the same tokenizer");
  expect_refused(
      in_folder("$FATHOM pairs --model=here --teacher=other --tokens=tokens.h5 --output=pairs"), 3,
      "--teacher = other", "id " + std::to_string(first) + " is ", "the same tokenizer");
  const Outcome same = in_folder(train("tokenizers", options + "same --dry-run"));
  EXPECT_EQ(same.code, 0) << same.text;
}

TEST_F(BadInput, EarlyExitsOfAModelWhoseLastLayerSpeaksAlone) {
  expect_refused(in_folder("$FATHOM generate --model=model --prompt=a --exit=topk --exit-topk=1"),
                 2, "--exit=topk", "no router", "mode.enabled=true");
  expect_refused(in_folder("$FATHOM evaluate --model=model --prompts=nowhere.jsonl "
                           "--exit=threshold --exit-threshold=0.9"),
                 2, "--exit=threshold", "no router");
}

TEST_F(BadInput, DataSets) {
  const std::string tokenize =
      "$FATHOM tokenize input.jsonl out.h5 --template=plain --tokenizer=" FATHOM_SOURCE_DIR
      "/data_tools/samples/shakespeare";
  files::write_text_atomically(*files_ / "input.jsonl", "");
  expect_refused(in_folder(tokenize), 3, "input.jsonl");
  files::write_text_atomically(*files_ / "input.jsonl",
                               "{\"instruction\": \"a\", \"output\": \"b\"}\n"
                               "{\"instruction\": \"a \xff\", \"output\": \"b\"}\n");
  expect_refused(in_folder(tokenize), 3, "input.jsonl:2", "UTF-8");
  EXPECT_FALSE(fs::exists(*files_ / "out.h5"));

  expect_refused(train_on_two("data", "--data.train=nowhere.h5"), 4, "nowhere.h5");
  files::write_text_atomically(*files_ / "empty.h5", "");
  expect_refused(train_on_two("data", "--data.train=empty.h5"), 3, "empty.h5");
  fs::copy_file(*files_ / "tokens.h5", *files_ / "short.h5");
  fs::resize_file(*files_ / "short.h5", fs::file_size(*files_ / "short.h5") / 2);
  expect_refused(train_on_two("data", "--data.train=short.h5"), 3, "short.h5");

  expect_refused(train_on_two("data", "--data.context=16"), 3, "tokens.h5", "16");
  expect_refused(train_on_two("data", "--data.context=100"), 2, "data.context", "100", "64");
  testing::write_tokens(*files_ / "long.h5", 5, 30, 40, 503, 1);
  expect_refused(
      train_on_two("data", "--data.train=long.h5 --data.context=16 --data.overlong=skip"), 3,
      "long.h5");
}

TEST_F(BadInput, SpanFiles) {
  const std::string build = "$FATHOM spans build --output=spans.h5 --tokenizer=" FATHOM_SOURCE_DIR
                            "/data_tools/samples/shakespeare --tokens=tokens.h5 --span-model=";
  expect_refused(in_folder(build + "nowhere.h5"), 4, "nowhere.h5", "fetch_span_model.sh");
  expect_refused(in_folder(build + "tokens.h5"), 3, "tokens.h5");
  expect_refused(in_folder("$FATHOM spans inspect nowhere.h5"), 4, "nowhere.h5", "spans build");
  expect_refused(in_folder("$FATHOM spans inspect tokens.h5"), 3, "fathom.tokens", "fathom.spans");
  expect_refused(in_folder("$FATHOM spans compare tokens.h5 tokens.h5"), 3, "tokens.h5");
  expect_refused(in_folder("$FATHOM spans bild"), 2, "action", "build|show|inspect|compare");
  expect_refused(in_folder(build + FATHOM_SPAN_MODEL), 3, "tokens.h5", "0000000000000000");
  EXPECT_FALSE(fs::exists(*files_ / "spans.h5"));
  testing::write_tokens(*files_ / "lear.h5", 5, 4, 8, 503, 3, testing::shakespeare());
  expect_refused(
      in_folder(build + FATHOM_SPAN_MODEL + " --tokens=lear.h5 --output=nowhere/spans.h5"), 4,
      "nowhere/spans.h5", "no folder");
}

TEST_F(BadInput, SpansThatAreNotOfTheTrainingText) {
  using namespace data::spans;
  testing::write_tokens(*files_ / "other.h5", 40, 2, 40, 503, 9);
  const auto write_spans = [&](const std::string& tokens_name, const std::string& name) {
    const auto tokens = data::TokenFile::open(*files_ / tokens_name);
    SpanFileWriter writer(*files_ / name, {.definition = definition_of({}),
                                           .tokenizer = tokens.info().tokenizer,
                                           .tokens = tokens.info().content});
    for (std::int64_t r = 0; r < tokens.records(); ++r) writer.append(tokens.record(r).ids, {});
    writer.finish();
  };
  write_spans("tokens.h5", "good-spans.h5");
  write_spans("other.h5", "other-spans.h5");
  const auto train_with = [&](const std::string& spans) {
    return train_on_two("spans", "--teacher.path=model --mta.enabled " + spans);
  };
  expect_refused(train_with(""), 2, "mta.enabled", "spans.train", "spans.model");
  expect_refused(train_with("--spans.train=nowhere.h5"), 4, "nowhere.h5", "fathom spans build");
  expect_refused(train_with("--spans.train=tokens.h5"), 3, "tokens.h5", "fathom.spans");
  expect_refused(train_with("--spans.train=other-spans.h5"), 3, "other-spans.h5", "tokens.h5",
                 "another token file");
  expect_refused(train_with("--spans.train=good-spans.h5 --spans.vp=group"), 3, "good-spans.h5",
                 "vp=pattern", "vp=group");
  expect_refused(train_with("--spans.model=nowhere.h5"), 4, "nowhere.h5");
  const Outcome empty = train_with("--spans.train=good-spans.h5");
  EXPECT_EQ(empty.code, 0) << "records without a span add nothing: " << empty.text;
}

TEST_F(BadInput, SecondWriter) {
  make_finished_run("locked");
  const checkpoints::RunLock holder(*files_ / "locked");
  expect_refused(train_on_two("locked", "--run.steps=3 --run.accept_changes=true"), 4, "in use",
                 "host=", "pid=" + std::to_string(::getpid()));
}

TEST_F(BadInput, FullDiskOnOneRank) {
  // Large enough that a rank's shard is beyond what MPI itself keeps in files.
  testing::write_model(*files_ / "large", {.hidden = 128, .vocab = 16384, .tied = false}, 7);
  const std::string first = train("full", "--grid.pp=2 --model.path=large --run.steps=1");
  const Outcome saved = in_folder("$MPIRUN " + first);
  ASSERT_EQ(saved.code, 0) << saved.text;
  const std::string second =
      train("full", "--grid.pp=2 --model.path=large --run.steps=2 --run.accept_changes=true");
  const Outcome full = in_folder(
      "$MPIRUN bash -c '[ $OMPI_COMM_WORLD_RANK = 0 ] || ulimit -f 8192; exec " + second + "'");
  expect_refused(full, 4, "step 2 was not saved", "rank 1", "File too large",
                 "earlier checkpoints are untouched");
  EXPECT_FALSE(fs::exists(*files_ / "full/step_00000002.tmp"));
  EXPECT_EQ(in_folder("$FATHOM checkpoint verify full/step_00000001").code, 0);
  const Outcome again = in_folder("$MPIRUN " + second);
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_TRUE(again.has("resumed from")) << again.text;
}

TEST_F(BadInput, DamagedNewestCheckpoint) {
  make_finished_run("damaged");
  const fs::path shard = *files_ / "damaged/step_00000002/rank_00001.h5";
  fs::resize_file(shard, fs::file_size(shard) - 1024);
  const std::string more = "--run.steps=3 --run.accept_changes=true";
  expect_refused(train_on_two("damaged", more), 4, "rank_00001.h5", "manifest");
  expect_refused(in_folder("$FATHOM evaluate --checkpoint=damaged --data=tokens.h5"), 4,
                 "rank_00001.h5");
  EXPECT_EQ(in_folder("$FATHOM checkpoint verify damaged/step_00000001").code, 0);
  EXPECT_EQ(in_folder("$FATHOM checkpoint verify damaged/step_00000002").code, 4);
  fs::remove_all(*files_ / "damaged/step_00000002");
  fs::remove(*files_ / "damaged/LATEST");
  const Outcome resumed = train_on_two("damaged", more);
  EXPECT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_TRUE(resumed.has("step_00000001")) << resumed.text;
}

TEST_F(BadInput, ChangedBitsInACheckpoint) {
  make_finished_run("flipped");
  const fs::path shard = *files_ / "flipped/step_00000002/rank_00001.h5";
  {
    // At several places, since some of a file belongs to nothing.
    std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
    for (std::uintmax_t part = 4; part < 8; ++part) {
      file.seekp(static_cast<std::streamoff>(fs::file_size(shard) * part / 8));
      file.write("\x55\xaa\x55\xaa", 4);
    }
  }
  expect_refused(train_on_two("flipped", "--run.steps=3 --run.accept_changes=true"), 4,
                 "rank_00001.h5", "checksum", "damaged");
}

TEST_F(BadInput, LossThatRunsAway) {
  const Outcome outcome = train_on_two("runaway", "--run.steps=9 --optim.lr=1e30 --optim.clip=0");
  expect_refused(outcome, 6, "nothing was updated");
  // The step before the one that failed was saved, even if that save was still under way.
  int failed = 0;
  while (failed < 9 && !outcome.has("step " + std::to_string(failed) + ": loss")) ++failed;
  ASSERT_GT(failed, 1) << outcome.text;
  const std::string last = "runaway/step_0000000" + std::to_string(failed - 1);
  EXPECT_EQ(in_folder("$FATHOM checkpoint verify " + last).code, 0) << outcome.text;
}

TEST_F(BadInput, ChangedRecipeOfARun) {
  make_finished_run("changed");
  expect_refused(train_on_two("changed", "--run.steps=3 --optim.lr=1"), 2, "optim.lr", "was",
                 "run.accept_changes");
}

}  // namespace
}  // namespace fathom::launch
