#include <fstream>
#include <gtest/gtest.h>
#include <thread>

#include "checkpoints/checkpoint_reader.h"
#include "checkpoints/checkpoint_tools.h"
#include "checkpoints/checkpoint_writer.h"
#include "core/files.h"
#include "tests/checkpoints/sample_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace fathom::checkpoints {
namespace {

using testing::expect_error;
using testing::TemporaryDirectory;

class Checkpoint : public ::testing::Test {
 protected:
  void save(std::int64_t step, const KeepPolicy& keep = {}) {
    CheckpointWriter writer(folder_.path(), keep);
    writer.begin(*world_, sample::run_info(step),
                 sample::snapshot(0, 1, static_cast<std::uint32_t>(step)));
    const auto saved = writer.finish(*world_);
    ASSERT_TRUE(saved);
    EXPECT_TRUE(saved->warnings.empty()) << saved->warnings[0];
  }
  std::optional<CheckpointReader> open(const OpenOptions& options = {}) {
    return CheckpointReader::open_latest(*world_, folder_.path(), options);
  }
  std::filesystem::path step(std::int64_t n) const { return folder_ / step_name(n); }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& item : std::filesystem::directory_iterator(folder_.path()))
      found.push_back(item.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }

  TemporaryDirectory folder_;
  std::unique_ptr<comm::Communicator> world_ = comm::self_communicator();
};

TEST_F(Checkpoint, RoundTripWithItsRunState) {
  EXPECT_FALSE(open()) << "a new run has none";
  save(7);
  auto reader = open({.verify = true});
  ASSERT_TRUE(reader);
  EXPECT_EQ(sample::count_wrong(*reader, 0, 1, 7), 0);
  const RunInfo& run = reader->manifest().run;
  EXPECT_EQ(run.step, 7);
  EXPECT_EQ(run.state, R"({"sample":56})");
  EXPECT_EQ(run.config, sample::run_info(7).config);
  EXPECT_EQ(run.grid, "tp=1 pp=1 dp=1");
  EXPECT_EQ(files::read_text(folder_ / "LATEST"), "step_00000007\n");
  EXPECT_EQ(names(), (std::vector<std::string>{"LATEST", "step_00000007"}));
  EXPECT_EQ(CheckpointReader::open(*world_, step(7)).manifest().tensors.size(),
            sample::tensors().size());
}

TEST_F(Checkpoint, ReadsWithoutTakingAnythingMissingForZeros) {
  save(1);
  auto reader = open();
  std::vector<float> out(1000);
  expect_error(
      ErrorKind::io, [&] { reader->at("head.weight"); }, "step_00000001",
      "no tensor 'head.weight'");
  expect_error(
      ErrorKind::io,
      [&] {
        reader->read("frozen.weight#exp_avg", whole({6, 10}), out.data());
      },
      "frozen.weight#exp_avg");
  expect_error(
      ErrorKind::io,
      [&] {
        reader->at("embed.weight", {38, 8});
      },
      "embed.weight", "[37, 8]", "[38, 8]");
  expect_error(
      ErrorKind::io, [&] { reader->read("mask", whole({11}), out.data()); }, "mask",
      "i32, not f32");
  expect_error(
      ErrorKind::io,
      [&] {
        reader->read("embed.weight", {{30, 0}, {8, 8}}, out.data());
      },
      "[8, 8] at [30, 0]");
  reader->read("frozen.weight", {{1, 2}, {2, 3}}, out.data());
  const auto narrow = sample::values(sample::tensors()[5], {{1, 2}, {2, 3}}, 1);
  bf16 last;
  std::memcpy(&last, narrow.data() + 10, 2);
  const float wide = to_float(last);
  EXPECT_EQ(std::memcmp(&out[5], &wide, 4), 0) << "bf16 widens to f32";
}

TEST_F(Checkpoint, WritingOverlapsAndCommitsWhenAsked) {
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  CheckpointWriter writer(folder_.path(), {}, [&](std::string_view stage) {
    if (stage == "shard created") opened.wait();
  });
  EXPECT_FALSE(writer.finish(*world_)) << "nothing to finish";
  writer.begin(*world_, sample::run_info(1), sample::snapshot(0, 1));
  EXPECT_FALSE(writer.try_finish(*world_));
  EXPECT_TRUE(writer.pending());
  EXPECT_FALSE(open()) << "what is being written is not there yet";
  gate.set_value();
  std::optional<SaveResult> saved;
  for (int i = 0; i < 1000 && !saved; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    saved = writer.try_finish(*world_);
  }
  ASSERT_TRUE(saved);
  EXPECT_GT(saved->bytes, 0u);
  EXPECT_FALSE(writer.pending());
  auto reader = open();
  EXPECT_EQ(sample::count_wrong(*reader, 0, 1), 0);
}

TEST_F(Checkpoint, IncompleteTensorIsNotCommitted) {
  save(1);
  CheckpointWriter writer(folder_.path(), {});
  const auto try_to_save = [&](const Snapshot& data) {
    writer.begin(*world_, sample::run_info(2), data);
    writer.finish(*world_);
  };
  auto lacking = sample::snapshot(0, 1);
  lacking.tensors[0].pieces[0].box.extent[0] -= 1;
  expect_error(
      ErrorKind::io, [&] { try_to_save(lacking); }, "step 2", "'embed.weight'", "cover 288 of 296");
  auto doubled = sample::snapshot(0, 1);
  doubled.tensors[2].name = doubled.tensors[1].name;
  expect_error(
      ErrorKind::io, [&] { try_to_save(doubled); }, "'layers.0.q.weight'", "twice");
  EXPECT_EQ(names(), (std::vector<std::string>{"LATEST", "step_00000001"}));
}

TEST_F(Checkpoint, DamageIsFoundAtOpeningOrByVerify) {
  const auto shard = [&] { return step(2) / shard_name(0); };
  const auto damaged = [&](const std::function<void()>& damage, const std::string& reason) {
    std::filesystem::remove_all(step(2));
    save(2);
    damage();
    expect_error(
        ErrorKind::io, [&] { open(); }, "step_00000002", reason, "fallback");
    ASSERT_FALSE(verify(step(2)).empty());
    EXPECT_NE(verify(step(2))[0].find(reason), std::string::npos) << verify(step(2))[0];
    std::vector<std::string> warnings;
    auto reader = open({.allow_fallback = true,
                        .warn = [&](const std::string& line) { warnings.push_back(line); }});
    EXPECT_EQ(reader->manifest().run.step, 1);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("passing over step_00000002"), std::string::npos);
  };
  save(1);
  damaged(
      [&] { std::filesystem::resize_file(shard(), std::filesystem::file_size(shard()) - 1024); },
      "the manifest says");
  damaged([&] { std::filesystem::remove(shard()); }, "cannot be found");
  const auto manifest = [&] { return step(2) / kManifestName; };
  damaged([&] { std::filesystem::resize_file(manifest(), 500); }, "damaged");
  damaged([&] { std::filesystem::remove(manifest()); }, "manifest.json");
  damaged(
      [&] {
        std::string text = files::read_text(manifest());
        text.replace(text.find("seed = 1"), 8, "seed = 2");
        files::write_text_atomically(manifest(), text);
      },
      "its own checksum");
  std::filesystem::remove_all(step(1));
  expect_error(
      ErrorKind::io, [&] { open({.allow_fallback = true}); }, "no sound checkpoint");
}

TEST_F(Checkpoint, LatestThatNamesALostCheckpointIsDamage) {
  save(1);
  save(2);
  std::filesystem::remove_all(step(2));
  expect_error(
      ErrorKind::io, [&] { open(); }, "step_00000002");
  EXPECT_EQ(open({.allow_fallback = true})->manifest().run.step, 1);
  std::filesystem::remove(folder_ / "LATEST");
  EXPECT_EQ(open()->manifest().run.step, 1) << "without LATEST the newest one counts";
  std::ofstream(folder_ / "LATEST") << "something\n";
  expect_error(
      ErrorKind::io, [&] { open(); }, "LATEST", "'something'");
}

TEST_F(Checkpoint, FlippedByteIsNamedByVerifyAndByAVerifyingReader) {
  save(1);
  const auto path = step(1) / shard_name(0);
  EXPECT_TRUE(verify(step(1)).empty());
  std::uint64_t offset = 0;
  {
    const auto file = h5::File::open(path);
    offset = *file.contiguous_offset("embed.weight@0,0");
  }
  std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekg(static_cast<std::streamoff>(offset));
  const char flipped = static_cast<char>(bytes.get() ^ 4);
  bytes.seekp(static_cast<std::streamoff>(offset));
  bytes.put(flipped);
  bytes.close();

  const auto damages = verify(step(1));
  ASSERT_EQ(damages.size(), 1u);
  EXPECT_NE(damages[0].find("'embed.weight'"), std::string::npos) << damages[0];
  EXPECT_NE(damages[0].find("rank_00000.h5"), std::string::npos) << damages[0];
  auto reader = open({.verify = true});
  expect_error(
      ErrorKind::io, [&] { sample::count_wrong(*reader, 0, 1, 1); }, "embed.weight", "checksum");
}

TEST_F(Checkpoint, PruneKeepsTheLastAndTheMajorOnes) {
  for (std::int64_t n = 10; n <= 60; n += 10) save(n, {.last = 2, .every = 30});
  EXPECT_EQ(committed_steps(folder_.path()), (std::vector<std::int64_t>{30, 50, 60}));
  EXPECT_EQ(names().size(), 4u) << "and nothing half removed";
}

TEST_F(Checkpoint, SavingAStepAgainReplacesIt) {
  save(1);
  CheckpointWriter writer(folder_.path(), {});
  writer.begin(*world_, sample::run_info(1), sample::snapshot(0, 1, 99));
  writer.finish(*world_);
  auto reader = open();
  EXPECT_EQ(sample::count_wrong(*reader, 0, 1, 99), 0);
  EXPECT_EQ(names(), (std::vector<std::string>{"LATEST", "step_00000001"}));
}

TEST_F(Checkpoint, InspectNamesEveryTensor) {
  save(12);
  const std::string text = inspect(step(12));
  for (const sample::Tensor& tensor : sample::tensors())
    EXPECT_NE(text.find("  " + tensor.name + " "), std::string::npos) << tensor.name;
  EXPECT_NE(text.find("step        12"), std::string::npos);
  EXPECT_NE(text.find("rank_00000.h5"), std::string::npos);
}

TEST_F(Checkpoint, ExportWritesTheParametersWithoutMoments) {
  save(3);
  auto reader = open({.verify = true});
  export_safetensors(*reader, folder_ / "export");
  const SafetensorsReader exported(folder_ / "export");
  EXPECT_EQ(exported.tensors().size(), 8u);
  for (const sample::Tensor& tensor : sample::tensors()) {
    if (tensor.dtype == DType::bf16 || tensor.name.find('#') != std::string::npos) continue;
    const auto found = exported.bytes(tensor.name);
    const auto wanted = sample::values(tensor, whole(tensor.shape), 3);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), wanted.begin(), wanted.end()))
        << tensor.name;
  }
  EXPECT_EQ(exported.at("frozen.weight").element, Element::f32);
  expect_error(
      ErrorKind::data,
      [&] {
        export_safetensors(*reader, folder_ / "none",
                           {.wanted = [](const std::string&) { return false; }});
      },
      "none of the tensors");
}

TEST_F(Checkpoint, ViewShowsEveryTensorWhole) {
  save(3);
  const auto view = h5::File::open(step(3) / "view.h5");
  EXPECT_EQ(view.int_attribute("/", "step"), 3);
  const auto found = view.read<float>("embed.weight#exp_avg");
  const auto wanted = sample::values(sample::tensors()[8], whole({37, 8}), 3);
  EXPECT_EQ(sample::tensors()[8].name, "embed.weight#exp_avg");
  EXPECT_EQ(std::memcmp(found.data(), wanted.data(), wanted.size()), 0);
}

TEST(SpaceHint, NamesWhatIsLeftAndWhatIsNeeded) {
  const TemporaryDirectory folder;
  EXPECT_EQ(space_hint(folder.path(), 1), "");
  const std::string hint = space_hint(folder.path(), std::uint64_t{1} << 60);
  EXPECT_NE(hint.find("needs 1099511627776 MiB"), std::string::npos) << hint;
  EXPECT_EQ(space_hint(folder / "nowhere", std::uint64_t{1} << 60), "") << "not known: no hint";
}

}  // namespace
}  // namespace fathom::checkpoints
