#include "train/metrics/tensorboard_sink.h"

#include <cstring>
#include <gtest/gtest.h>
#include <map>

#include "core/files.h"
#include "event.pb.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"
#include "tests/train/example_metrics.h"
#include "train/metrics/record_frame.h"

namespace fathom::train {
namespace {

template <typename T>
T take(std::string_view& bytes) {
  T value{};
  EXPECT_GE(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

std::vector<tensorboard::Event> read_events(const std::filesystem::path& path) {
  const std::string content = files::read_text(path);
  std::string_view bytes = content;
  std::vector<tensorboard::Event> events;
  while (!bytes.empty()) {
    const std::string_view length_bytes = bytes.substr(0, 8);
    const auto length = take<std::uint64_t>(bytes);
    EXPECT_EQ(take<std::uint32_t>(bytes), masked_crc32c(length_bytes));
    const std::string_view data = bytes.substr(0, length);
    bytes.remove_prefix(length);
    EXPECT_EQ(take<std::uint32_t>(bytes), masked_crc32c(data));
    EXPECT_TRUE(events.emplace_back().ParseFromArray(data.data(), static_cast<int>(data.size())));
  }
  return events;
}

std::map<std::string, float> scalars(const tensorboard::Event& event) {
  std::map<std::string, float> values;
  for (const auto& item : event.summary().value()) values[item.tag()] = item.simple_value();
  return values;
}

std::uint32_t unmask(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

TEST(MaskedCrc32c, MatchesPublishedVectors) {
  // RFC 3720, B.4, and the check value of the CRC catalogue.
  EXPECT_EQ(unmask(masked_crc32c(std::string(32, '\0'))), 0x8a9136aau);
  EXPECT_EQ(unmask(masked_crc32c(std::string(32, '\xff'))), 0x62a8ab43u);
  EXPECT_EQ(unmask(masked_crc32c("123456789")), 0xe3069283u);
}

TEST(TensorboardSink, WritesOneScalarForEachTag) {
  const testing::TemporaryDirectory folder;
  TensorboardSink sink(folder / "tensorboard", std::nullopt);
  StepMetrics m = example_step(7);
  m.more = {{"bytes_sent", 1024}};
  sink.step(m);
  sink.evaluation(example_evaluation(7));
  const auto events = read_events(sink.path());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(events[1].step(), 0);
  EXPECT_EQ(events[2].step(), 7);
  EXPECT_GT(events[2].wall_time(), 1.6e9);
  EXPECT_EQ(scalars(events[2]), (std::map<std::string, float>{{"loss/total", 5.75f},
                                                              {"loss/ce", 1.5f},
                                                              {"loss/kl", 2.5f},
                                                              {"train/grad_norm", 0.75f},
                                                              {"train/lr", 1e-4f},
                                                              {"train/tokens_per_s", 10240.4f},
                                                              {"train/peak_share", 0.714f},
                                                              {"train/memory_gib", 3.0f},
                                                              {"train/bytes_sent", 1024.0f}}));
  EXPECT_EQ(scalars(events[3]),
            (std::map<std::string, float>{
                {"eval/loss", 2.31f}, {"eval/perplexity", 10.0744f}, {"eval/accuracy", 0.512f}}));
}

TEST(TensorboardSink, AResumedRunTellsWhatToDrop) {
  const testing::TemporaryDirectory folder;
  const TensorboardSink first(folder.path(), std::nullopt);
  const TensorboardSink second(folder.path(), 40);
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(read_events(second.path())[1].step(), 41);
}

TEST(TensorboardSink, SaysWhenItCannotWrite) {
  testing::expect_error(
      ErrorKind::io, [] { TensorboardSink("/proc/no/tensorboard", std::nullopt); },
      "/proc/no/tensorboard");
}

}  // namespace
}  // namespace fathom::train
