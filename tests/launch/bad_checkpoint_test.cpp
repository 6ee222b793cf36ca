// Run folders that are not what they should be: one message with the file in it, on two ranks that
// could disagree, and sound checkpoints as they were.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <unistd.h>

#include "checkpoints/checkpoint_reader.h"
#include "checkpoints/run_folder.h"
#include "core/files.h"
#include "core/stop_signal.h"
#include "tests/launch/program.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"

namespace fathom::launch {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<std::int64_t>;

class BadCheckpoint : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    files_ = new testing::TemporaryDirectory();
    testing::write_model(*files_ / "model", {}, 7);
    testing::write_tokens(*files_ / "tokens.h5", 40, 2, 40, 503, 3);
    ASSERT_EQ(train("finished", "--run.steps=2").code, 0);
  }
  static void TearDownTestSuite() { delete files_; }

  static Outcome in_folder(const std::string& command, int seconds = 20) {
    return shell("cd " + files_->path().string() + "\n" + command, seconds);
  }
  /// A run on two stages that goes on to step 4 and saves each.
  static std::string train_command(const std::string& run, const std::string& more, int ranks = 2) {
    return "${MPIRUN/-np 2/-np " + std::to_string(ranks) + "} $FATHOM train --run.dir=" + run +
           " --run.steps=4 --run.save_every=1 --model.path=model --data.train=tokens.h5 "
           "--batch.micro_batch=2 --batch.micro_batches=2 --schedule.kind=constant --grid.pp=2 "
           "--run.keep=0 --run.accept_changes=true --log.tensorboard=false " +
           more;
  }
  static Outcome train(const std::string& run, const std::string& more = "", int ranks = 2) {
    return in_folder(train_command(run, more, ranks));
  }
  /// A run that has saved steps 1 and 2.
  static fs::path copy_of_run(const std::string& run) {
    fs::copy(*files_ / "finished", *files_ / run, fs::copy_options::recursive);
    return *files_ / run;
  }
  /// A copy whose step 2 has another manifest.
  template <typename Change>
  static void change_manifest(const std::string& run, Change change) {
    const fs::path folder = copy_of_run(run) / "step_00000002";
    checkpoints::Manifest manifest = checkpoints::load_manifest(folder);
    change(manifest);
    files::write_text_atomically(folder / checkpoints::kManifestName,
                                 checkpoints::to_text(manifest));
  }
  /// Bytes in the middle of a file, at several places, since some of a file belongs to nothing.
  static void change_bits(const fs::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    for (std::uintmax_t part = 4; part < 8; ++part) {
      file.seekp(static_cast<std::streamoff>(fs::file_size(path) * part / 8));
      file.write("\x55\xaa\x55\xaa", 4);
    }
  }
  /// Loss of each step.
  static std::vector<double> losses_of(const std::string& run) {
    std::ifstream file(*files_ / run / "metrics.jsonl");
    std::vector<double> losses;
    for (std::string line; std::getline(file, line);)
      losses.push_back(nlohmann::json::parse(line).at("loss"));
    return losses;
  }
  static void expect_sound(const std::string& checkpoint) {
    EXPECT_EQ(in_folder("$FATHOM checkpoint verify " + checkpoint).code, 0) << checkpoint;
  }

  inline static testing::TemporaryDirectory* files_ = nullptr;
};

TEST_F(BadCheckpoint, AnEmptyFolder) {
  fs::create_directory(copy_of_run("empty") / "step_00000003");
  expect_refused(train("empty"), 4, "step_00000003/manifest.json", "run.resume_fallback");
  expect_sound("empty/step_00000002");
}

TEST_F(BadCheckpoint, HalfPruned) {
  fs::remove(copy_of_run("pruned") / "step_00000002/rank_00000.h5");
  expect_refused(train("pruned"), 4, "step_00000002/rank_00000.h5", "cannot be found");
  fs::remove(*files_ / "pruned/step_00000002/manifest.json");
  expect_refused(train("pruned"), 4, "step_00000002/manifest.json");
  expect_sound("pruned/step_00000001");
}

TEST_F(BadCheckpoint, OfAnotherModel) {
  copy_of_run("other_model");
  const auto refused = [](const std::string& name, const std::string& difference) {
    expect_refused(train("other_model", "--model.path=" + name), 2, "other_model/step_00000002",
                   difference);
  };
  testing::write_model(*files_ / "wider", {.hidden = 96, .ffn = 152}, 7);
  refused("wider", "hidden was 64, is 96");
  testing::write_model(*files_ / "deeper", {.layers = 5}, 7);
  refused("deeper", "layers was 4, is 5");
  testing::write_model(*files_ / "shallower", {.layers = 3}, 7);
  refused("shallower", "layers was 4, is 3");
  // The same tensors, of which something else is made.
  fs::copy(*files_ / "model", *files_ / "stretched");
  std::string config = testing::config_json({});
  const std::string theta = "\"rope_theta\": 10000.0";
  ASSERT_NE(config.find(theta), std::string::npos);
  config.replace(config.find(theta), theta.size(), "\"rope_theta\": 500000.0");
  files::write_text_atomically(*files_ / "stretched/config.json", config);
  refused("stretched", "rope.theta was 10000, is 500000");
  expect_sound("other_model/step_00000002");
  fs::copy(*files_ / "model", *files_ / "moved");
  EXPECT_EQ(train("other_model", "--model.path=moved").code, 0) << "the same in another place";
}

TEST_F(BadCheckpoint, OfAnotherTeacher) {
  const std::string taught = "--teacher.path=teacher --loss.kd_weight=1 --run.steps=2 ";
  testing::write_model(*files_ / "teacher", {}, 9);
  ASSERT_EQ(train("taught", taught).code, 0);
  // In the same place, of the same shape.
  testing::write_model(*files_ / "teacher", {}, 10);
  expect_refused(train("taught", taught + "--run.accept_changes=false"), 2,
                 "teacher.path = teacher", "not the teacher of taught/step_00000002",
                 "run.accept_changes=true");
  const Outcome accepted = train("taught", taught + "--run.steps=3");
  EXPECT_EQ(accepted.code, 0) << accepted.text;
  EXPECT_TRUE(accepted.has("changed since the checkpoint: teacher.path")) << accepted.text;
  const Outcome again = train("taught", taught + "--run.steps=3 --run.accept_changes=false");
  EXPECT_EQ(again.code, 0) << "it is the run's teacher now: " << again.text;
}

TEST_F(BadCheckpoint, WithAnAdapterThatTheRunDoesNotWant) {
  ASSERT_EQ(train("adapted", "--adapter.kind=lora --adapter.rank=4 --run.steps=2").code, 0);
  expect_refused(train("adapted", ""), 2, "adapted/step_00000002", "16 of its parameters",
                 "self_attn.q_proj.lora_A", "none of this run's");
  expect_sound("adapted/step_00000002");
}

TEST_F(BadCheckpoint, NewerThanTheProgram) {
  const fs::path manifest = copy_of_run("newer") / "step_00000002/manifest.json";
  std::string text = files::read_text(manifest);
  const std::string now = "\"version\":1", later = "\"version\":9";
  const auto at = text.find(now);
  ASSERT_NE(at, std::string::npos);
  files::write_text_atomically(manifest, text.replace(at, now.size(), later));
  const char* reason = "version 9; this program reads version 1";
  expect_refused(train("newer"), 2, "manifest.json", reason);
  // It is sound: an older program must neither pass over it nor put it out of the way.
  expect_refused(train("newer", "--run.resume_fallback=true"), 2, "manifest.json", reason);
  expect_refused(in_folder("$FATHOM checkpoint verify newer/step_00000002"), 2, reason);
  EXPECT_EQ(checkpoints::committed_steps(*files_ / "newer"), (Steps{1, 2}));
}

TEST_F(BadCheckpoint, AShardInPlaceOfAnothers) {
  const fs::path run = copy_of_run("swapped");
  // The same rank's of the step before: the right size, the right tensors, other values.
  fs::copy_file(run / "step_00000001/rank_00001.h5", run / "step_00000002/rank_00001.h5",
                fs::copy_options::overwrite_existing);
  expect_refused(train("swapped"), 4, "rank 1", "rank_00001.h5", "checksum");
  fs::rename(run / "step_00000002/rank_00000.h5", run / "other.h5");
  fs::rename(run / "step_00000002/rank_00001.h5", run / "step_00000002/rank_00000.h5");
  fs::rename(run / "other.h5", run / "step_00000002/rank_00001.h5");
  expect_refused(train("swapped"), 4, "step_00000002/rank_00000.h5", "the manifest says");
}

// To HDF5 a shard may be sound that holds another type or shape than its manifest says.
TEST_F(BadCheckpoint, AShardOfAnotherTypeOrShape) {
  const std::string name = "model.norm.weight";
  const std::string matrix = "model.layers.3.mlp.up_proj.weight";
  const auto passed_over = [&](const std::string& run) {
    const Outcome verified = in_folder("$FATHOM checkpoint verify " + run + "/step_00000002");
    EXPECT_EQ(verified.code, 4) << verified.text;
    EXPECT_TRUE(verified.has("rank_00001.h5")) << verified.text;
    expect_refused(train(run), 4, "rank 1", "a checkpoint's shard is damaged", "rank_00001.h5");
    const Outcome outcome = train(run, "--run.resume_fallback=true");
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_TRUE(outcome.has("passing over step_00000002")) << outcome.text;
  };
  change_manifest("other_type",
                  [&](auto& manifest) { manifest.tensors.at(name).dtype = DType::bf16; });
  passed_over("other_type");
  change_manifest("other_shape", [&](auto& manifest) {
    manifest.tensors.at(name).pieces.at(0).dataset =
        manifest.tensors.at(matrix).pieces.at(0).dataset;
  });
  passed_over("other_shape");
}

// A tensor that a checkpoint lacks, whole or in part, is not taken for zeros.
TEST_F(BadCheckpoint, WithoutAMomentOrAPiece) {
  const std::string moment = "model.layers.3.mlp.up_proj.weight#exp_avg_sq";
  change_manifest("no_moment",
                  [&](auto& manifest) { ASSERT_EQ(manifest.tensors.erase(moment), 1u); });
  expect_refused(train("no_moment"), 4, "rank 1", "no tensor '" + moment + "'");
  change_manifest("no_piece", [&](auto& manifest) { manifest.tensors.at(moment).pieces.clear(); });
  expect_refused(train("no_piece"), 4, moment, "cover 0 of");
  expect_refused(in_folder("$FATHOM checkpoint export no_piece --output=export"), 4, moment);
  EXPECT_FALSE(fs::exists(*files_ / "export"));
}

TEST_F(BadCheckpoint, OnAReadOnlyDisk) {
  copy_of_run("read_only");
  // Root may write anywhere but on a disk that is mounted read-only.
  const std::string locked = ::geteuid() == 0
                                 ? "unshare -m bash -c 'mount --bind read_only read_only && "
                                   "mount -o remount,ro,bind read_only && exec \"$@\"' run "
                                 : "chmod a-w read_only; ";
  const Outcome outcome =
      in_folder(locked +
                "$MPIRUN $FATHOM train --run.dir=read_only --run.steps=4 --model.path=model "
                "--data.train=tokens.h5 --batch.micro_batch=2 --batch.micro_batches=2 --grid.pp=2 "
                "--schedule.kind=constant --run.accept_changes=true");
  in_folder("chmod u+w read_only");
  expect_refused(outcome, 4, "read_only/LOCK", ::geteuid() == 0 ? "Read-only" : "denied");
}

TEST_F(BadCheckpoint, APathThatIsNoRun) {
  expect_refused(train("nothing", "--run.resume=must"), 4, "nothing", "there is no checkpoint");
  expect_refused(train("tokens.h5"), 4, "tokens.h5", "run folder");
  copy_of_run("run");
  for (const char* dir : {"run/step_00000002", "run/step_00000002/"})
    expect_refused(train(dir), 2, "is a checkpoint",
                   "name the folder of its run, " + (*files_ / "run").string());
  expect_refused(train("finished", "--run.resume=never"), 2, "finished", "step_00000002");
  expect_refused(in_folder("$FATHOM checkpoint verify model"), 4, "model");
  expect_refused(in_folder("$FATHOM hang-report finished"), 4, "finished", "no reports of a hang");
}

TEST_F(BadCheckpoint, FallsBackWhenToldAndSetsTheDamagedAside) {
  const fs::path run = copy_of_run("fallback");
  fs::create_directory(run / "step_00000003");
  change_bits(run / "step_00000002/rank_00001.h5");
  expect_refused(train("fallback"), 4, "step_00000003");
  EXPECT_EQ(checkpoints::committed_steps(run), (Steps{1, 2, 3})) << "nothing is touched untold";

  const Outcome outcome = train("fallback", "--run.resume_fallback=true");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  for (const char* part : {"passing over step_00000003", "passing over step_00000002", "checksum",
                           "resumed from fallback/step_00000001"})
    EXPECT_TRUE(outcome.has(part)) << part << " is not in: " << outcome.text;
  EXPECT_EQ(checkpoints::committed_steps(run), (Steps{1, 2, 3, 4}));
  EXPECT_TRUE(fs::exists(run / "step_00000002.damaged"));
  EXPECT_TRUE(fs::exists(run / "step_00000003.damaged"));
  for (const char* step : {"1", "2", "3", "4"})
    expect_sound(std::string("fallback/step_0000000") + step);
}

TEST_F(BadCheckpoint, NothingSoundIsLeft) {
  const fs::path run = copy_of_run("ruins");
  change_bits(run / "step_00000001/rank_00000.h5");
  fs::remove(run / "step_00000002/manifest.json");
  const Outcome outcome = train("ruins", "--run.resume_fallback=true");
  EXPECT_EQ(outcome.code, 4) << outcome.text;
  EXPECT_TRUE(outcome.has("no sound checkpoint is left")) << outcome.text;
  EXPECT_TRUE(fs::exists(run / "step_00000001")) << "left for people to look at";
}

TEST_F(BadCheckpoint, AWriteThatFailsOnOneRankCostsOnlyThatSave) {
  copy_of_run("failed_write");
  for (const char* fault : {"--faults.rank=1 --faults.action='shard half written'",
                            "--faults.rank=0 --faults.action='all shards written'",
                            "--faults.rank=0 --faults.action='manifest written'"}) {
    expect_refused(
        train("failed_write", std::string("--faults.kind=failed_write --faults.step=3 ") + fault),
        4, "step 3 was not saved", "write failed", "earlier checkpoints are untouched");
    EXPECT_EQ(checkpoints::committed_steps(*files_ / "failed_write"), (Steps{1, 2}));
    EXPECT_FALSE(fs::exists(*files_ / "failed_write/step_00000003.tmp"));
  }
  expect_sound("failed_write/step_00000002");
}

TEST_F(BadCheckpoint, AFailedSaveMayBeTriedAgainByTheNext) {
  copy_of_run("retried");
  const std::string failing =
      "--run.save_errors=retry --faults.kind=failed_write --faults.rank=1 "
      "--faults.action='shard half written' --faults.step=";
  const Outcome next = train("retried", failing + "3");
  EXPECT_EQ(next.code, 0) << next.text;
  EXPECT_TRUE(next.has("step 3 was not saved")) << next.text;
  EXPECT_EQ(checkpoints::committed_steps(*files_ / "retried"), (Steps{1, 2, 4}));
  // After the last step there is no next one.
  const Outcome last = train("retried", failing + "5 --run.steps=5");
  EXPECT_EQ(last.code, 0) << last.text;
  EXPECT_TRUE(last.has("step 5 was not saved")) << last.text;
  EXPECT_EQ(checkpoints::committed_steps(*files_ / "retried"), (Steps{1, 2, 4, 5}));
  expect_sound("retried/step_00000005");

  const Outcome never =
      train("retried",
            "--run.save_errors=retry --log.jsonl=false --run.steps=7 --faults.kind=full_disk "
            "--faults.step=6 --faults.action=save");
  expect_refused(never, 4, "step 7 was not saved", "File too large");
  EXPECT_EQ(checkpoints::committed_steps(*files_ / "retried"), (Steps{1, 2, 4, 5}));
}

TEST_F(BadCheckpoint, ARunWhoseSaveFailedIsStoppedLikeAnyOther) {
  copy_of_run("stopped");
  const Outcome outcome = in_folder(
      train_command("stopped",
                    "--run.steps=1000 --run.save_every=3 --run.save_errors=retry "
                    "--faults.kind=failed_write --faults.step=3 "
                    "--faults.action='all shards written'") +
      " & job=$!\nuntil grep -qs '\"step\":5,' stopped/metrics.jsonl; do sleep 0.01; done\n"
      "kill -USR1 $(pgrep -P $job)\nwait $job");
  EXPECT_EQ(outcome.code, kStoppedExitCode) << outcome.text;
  EXPECT_TRUE(outcome.has("step 3 was not saved")) << outcome.text;
  EXPECT_EQ(losses_of("stopped").size(),
            static_cast<std::size_t>(checkpoints::committed_steps(*files_ / "stopped").back()));
}

TEST_F(BadCheckpoint, MetricsThatCannotBeWrittenEndTheRunOnAllRanks) {
  copy_of_run("no_metrics");
  expect_refused(train("no_metrics",
                       "--run.save_every=0 --faults.kind=full_disk --faults.step=3 "
                       "--faults.action=update"),
                 4, "no_metrics/metrics.jsonl", "File too large");
  expect_sound("no_metrics/step_00000002");
}

TEST_F(BadCheckpoint, AFullDiskOfOneRankOfFour) {
  copy_of_run("full_disk");
  for (const char* rank : {"0", "2"}) {
    const Outcome outcome = train("full_disk",
                                  std::string("--grid.dp=2 --faults.kind=full_disk --faults.step=3 "
                                              "--faults.action=save --faults.rank=") +
                                      rank,
                                  4);
    expect_refused(outcome, 4, "step 3 was not saved", std::string("rank ") + rank + ": ",
                   "File too large", "earlier checkpoints are untouched");
    EXPECT_EQ(checkpoints::committed_steps(*files_ / "full_disk"), (Steps{1, 2}));
  }
  expect_sound("full_disk/step_00000002");
  EXPECT_EQ(train("full_disk").code, 0) << "and it goes on, on its own grid";
}

TEST_F(BadCheckpoint, KilledAtAnyPointOfASaveOnEitherRank) {
  copy_of_run("killed");
  std::int64_t newest = 2;
  const auto killed = [&](int rank, const std::string& action, bool committed) {
    const Outcome outcome =
        train("killed", "--run.steps=99 --run.keep=2 --faults.kind=kill --faults.step=" +
                            std::to_string(newest + 1) + " --faults.rank=" + std::to_string(rank) +
                            " --faults.action='" + action + "'");
    EXPECT_NE(outcome.code, 0) << action << outcome.text;
    EXPECT_TRUE(outcome.has("injected fault")) << action << outcome.text;
    newest += committed;
    const Steps steps = checkpoints::committed_steps(*files_ / "killed");
    ASSERT_FALSE(steps.empty());
    EXPECT_EQ(steps.back(), newest) << action;
    expect_sound("killed/" + checkpoints::step_name(newest));
  };
  for (const char* action : {"shard created", "shard half written", "shard written"})
    killed(1, action, false);
  for (const char* action : {"all shards written", "manifest written"}) killed(0, action, false);
  for (const char* action :
       {"published", "latest written", "pruning", "pruned renamed", "pruned half", "pruned"})
    killed(0, action, true);
}

// Whole jobs of two ranks, killed at any moment: the newest complete checkpoint always loads, and
// the run ends like one that was left alone. FATHOM_RANDOM_KILLS asks for more of them.
TEST_F(BadCheckpoint, KilledAtRandomMoments) {
  const char* wanted = std::getenv("FATHOM_RANDOM_KILLS");
  const int kills = wanted ? std::atoi(wanted) : 6;
  std::mt19937 random(11);
  std::uniform_real_distribution<double> seconds(0.3, 1.6);
  const std::string options =
      " --run.steps=100000 --run.keep=2 --run.save_every=1 --dropout.residual=0.1";
  std::int64_t newest = 0;
  // On a busy machine the first save may need longer than that: then later and later kills follow.
  for (int i = 0; i < kills || (newest == 0 && i < 10 * kills); ++i) {
    // One rank of the two, or the launcher with all; half of the kills hit a run that has just
    // begun.
    const char* victim[] = {"$(pgrep -P $job | head -n 1)", "$(pgrep -P $job | tail -n 1)", "$job"};
    const Outcome outcome = in_folder(train_command("random", options) + " & job=$!\nsleep " +
                                      std::to_string(seconds(random) * (1 + i / kills)) +
                                      "\nkill -KILL " + victim[random() % 3] +
                                      "\nwait $job\ncode=$?\n"
                                      // Ranks without a launcher need a moment to notice.
                                      "while pgrep -f 'fathom [t]rain --run.dir=random '; do "
                                      "sleep 0.05; done\nexit $code");
    EXPECT_NE(outcome.code, 0);
    if (!fs::exists(*files_ / "random/LATEST")) continue;
    const Steps steps = checkpoints::committed_steps(*files_ / "random");
    ASSERT_FALSE(steps.empty());
    ASSERT_GE(steps.back(), newest) << "a committed checkpoint is gone";
    newest = steps.back();
    expect_sound("random/" + checkpoints::step_name(newest));
  }
  ASSERT_GT(newest, 0) << "not one save was left alone";
  const std::string end = " --run.keep=2 --run.save_every=0 --dropout.residual=0.1 --run.steps=" +
                          std::to_string(newest + 2);
  EXPECT_EQ(in_folder(train_command("random", end)).code, 0);
  EXPECT_EQ(in_folder(train_command("undisturbed", end), 300).code, 0);
  const auto found = losses_of("random"), expected = losses_of("undisturbed");
  EXPECT_EQ(found, expected);
  EXPECT_EQ(found.size(), static_cast<std::size_t>(newest + 2));
}

}  // namespace
}  // namespace fathom::launch
