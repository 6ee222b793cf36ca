#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "checkpoints/checkpoint_tools.h"
#include "checkpoints/checkpoint_writer.h"
#include "tests/checkpoints/sample_run.h"
#include "tests/mpi_main.h"
#include "tests/support/temporary_directory.h"

namespace fathom::checkpoints {
namespace {

using testing::TemporaryDirectory;

/// One folder for all ranks, made by rank 0.
class GridCheckpoint : public ::testing::Test {
 protected:
  GridCheckpoint() : world_(test::world()) {
    if (world_.rank() == 0) owned_.emplace();
    folder_ = world_.broadcast_text(owned_ ? owned_->path().string() : "", 0);
  }
  ~GridCheckpoint() override { world_.barrier(); }

  void save(std::int64_t step, const Snapshot& data) {
    CheckpointWriter writer(folder_, {});
    writer.begin(world_, sample::run_info(step), data);
    writer.finish(world_);
  }
  void save(std::int64_t step) { save(step, sample::snapshot(world_.rank(), world_.size())); }
  /// Something that rank 0 alone does while the others wait.
  void on_root(const std::function<void()>& action) {
    if (world_.rank() == 0) action();
    world_.barrier();
  }
  void expect_same_on_all(const std::string& text) {
    for (const std::string& other : world_.all_gather_text(text)) EXPECT_EQ(other, text);
  }
  std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  comm::Communicator& world_;
  std::optional<TemporaryDirectory> owned_;
  std::filesystem::path folder_;
};

TEST_F(GridCheckpoint, AnyNumberOfRanksReadsWhatAnotherNumberWrote) {
  save(1);
  for (int readers = 1; readers <= world_.size(); ++readers) {
    const auto group = world_.split(world_.rank() < readers ? 0 : 1, world_.rank());
    if (world_.rank() < readers) {
      auto reader = CheckpointReader::open_latest(*group, folder_, {.verify = readers == 1});
      EXPECT_EQ(sample::count_wrong(*reader, group->rank(), group->size()), 0)
          << readers << " readers";
    }
    world_.barrier();
  }
  on_root([&] { EXPECT_TRUE(verify(folder_ / step_name(1)).empty()); });
}

TEST_F(GridCheckpoint, FailureOfOneRankIsTheSameErrorOnAllAndLeavesTheOldOne) {
  save(1);
  const int victim = world_.size() - 1;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  if (world_.rank() == victim) {
    rlimit small = before;
    small.rlim_cur = 1000;
    setrlimit(RLIMIT_FSIZE, &small);
  }
  const std::string text = error_of([&] { save(2); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(text.find("rank " + std::to_string(victim)), std::string::npos) << text;
  EXPECT_NE(text.find("File too large"), std::string::npos) << text;
  expect_same_on_all(text);
  EXPECT_FALSE(std::filesystem::exists(folder_ / (step_name(2) + ".tmp")));
  EXPECT_EQ(CheckpointReader::open_latest(world_, folder_)->manifest().run.step, 1);
  save(2);
  EXPECT_EQ(CheckpointReader::open_latest(world_, folder_)->manifest().run.step, 2);
}

TEST_F(GridCheckpoint, WhatNoRankOrTwoRanksOwnIsRefused) {
  auto data = sample::snapshot(world_.rank(), world_.size());
  if (world_.rank() == world_.size() - 1) data.tensors.erase(data.tensors.begin());
  std::string text = error_of([&] { save(1, data); });
  EXPECT_NE(text.find("'embed.weight'"), std::string::npos) << text;
  EXPECT_NE(text.find(world_.size() > 1 ? "its pieces cover" : "no sound"), std::string::npos)
      << text;
  expect_same_on_all(text);

  auto replica = sample::snapshot(0, 1);
  text = error_of([&] { save(1, replica); });
  EXPECT_NE(text.find("overlaps"), std::string::npos) << text;
  expect_same_on_all(text);

  auto other_shape = sample::snapshot(world_.rank(), world_.size());
  if (world_.rank() == 1) other_shape.tensors[0].shape[0] += 1;
  text = error_of([&] { save(1, other_shape); });
  EXPECT_NE(text.find("[38, 8] on another"), std::string::npos) << text;
  EXPECT_FALSE(CheckpointReader::open_latest(world_, folder_));
}

TEST_F(GridCheckpoint, DamageIsTheSameErrorOnAll) {
  save(1);
  const auto shard = folder_ / step_name(1) / shard_name(1);
  on_root([&] { std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1024); });
  const std::string text = error_of([&] { CheckpointReader::open_latest(world_, folder_); });
  EXPECT_NE(text.find("rank_00001.h5"), std::string::npos) << text;
  expect_same_on_all(text);
}

TEST_F(GridCheckpoint, RanksWithNothingToSaveWriteNoFile) {
  Snapshot data;
  if (world_.rank() == world_.size() - 1) data = sample::snapshot(0, 1);
  save(1, data);
  auto reader = CheckpointReader::open_latest(world_, folder_);
  EXPECT_EQ(reader->manifest().files.size(), 1u);
  EXPECT_EQ(sample::count_wrong(*reader, world_.rank(), world_.size()), 0);
}

}  // namespace
}  // namespace fathom::checkpoints
