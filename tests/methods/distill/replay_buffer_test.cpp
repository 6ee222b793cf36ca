#include "methods/distill/replay_buffer.h"

#include <gtest/gtest.h>
#include <map>
#include <set>

#include "tests/support/expect_error.h"

namespace fathom::methods::distill {
namespace {

using fathom::testing::expect_error;

AnsweredPrompt text(std::int64_t sample) {
  AnsweredPrompt made{.sample = sample, .record = sample % 7, .prompt_length = 2};
  for (std::int64_t i = 0; i < 3 + sample % 5; ++i)
    made.ids.push_back(static_cast<std::int32_t>(10 * sample + i));
  return made;
}

ReplayBuffer filled(std::size_t capacity, std::int64_t samples) {
  ReplayBuffer buffer(capacity);
  for (std::int64_t sample = 0; sample < samples; ++sample) buffer.push(text(sample));
  return buffer;
}

std::vector<std::int64_t> samples(const ReplayBuffer& buffer) {
  std::vector<std::int64_t> all;
  for (const AnsweredPrompt& text : buffer.texts()) all.push_back(text.sample);
  return all;
}

TEST(ReplayBuffer, KeepsTheNewest) {
  EXPECT_FALSE(filled(3, 2).full());
  EXPECT_TRUE(filled(3, 3).full());
  EXPECT_EQ(samples(filled(3, 5)), (std::vector<std::int64_t>{2, 3, 4}));
}

TEST(ReplayBuffer, DrawsDifferentTextsEvenly) {
  const ReplayBuffer buffer = filled(10, 10);
  std::map<std::int64_t, int> times;
  for (std::int64_t step = 0; step < 1000; ++step) {
    std::set<std::int64_t> drawn;
    for (const AnsweredPrompt* text : buffer.draw(3, 5, step, 1)) drawn.insert(text->sample);
    EXPECT_EQ(drawn.size(), 3u);
    for (const std::int64_t sample : drawn) ++times[sample];
  }
  for (const auto& [sample, count] : times)
    EXPECT_NEAR(count, 300, 5 * 14.5) << "text " << sample << ": five standard deviations";
  EXPECT_EQ(times.size(), 10u);
  EXPECT_EQ(buffer.draw(10, 5, 0, 0).size(), 10u);
}

TEST(ReplayBuffer, DrawsDependOnStepAndMicroBatch) {
  const ReplayBuffer buffer = filled(100, 100);
  EXPECT_EQ(buffer.draw(4, 5, 6, 7), buffer.draw(4, 5, 6, 7));
  for (const auto& other :
       {buffer.draw(4, 4, 6, 7), buffer.draw(4, 5, 5, 7), buffer.draw(4, 5, 6, 6)})
    EXPECT_NE(buffer.draw(4, 5, 6, 7), other);
}

TEST(ReplayBuffer, ComesBackFromItsNumbers) {
  ReplayBuffer buffer(4);
  buffer.push(text(1));
  buffer.push({.sample = 5'000'000'000, .record = -1, .prompt_length = 1, .ids = {1, 2}});
  ReplayBuffer back(4), smaller(1);
  back.restore(buffer.packed(), "here");
  EXPECT_EQ(back.texts(), buffer.texts());
  smaller.restore(buffer.packed(), "here");
  EXPECT_EQ(samples(smaller), (std::vector<std::int64_t>{5'000'000'000}));
  back.restore({}, "here");
  EXPECT_EQ(back.size(), 0u);
}

TEST(ReplayBuffer, RefusesDamage) {
  const std::vector<std::int32_t> sound = filled(4, 2).packed();
  const auto refused = [&](std::vector<std::int32_t> numbers, const char* where) {
    expect_error(
        ErrorKind::io, [&] { ReplayBuffer(4).restore(numbers, "step_00000001"); },
        "step_00000001: the replay buffer is damaged", where);
  };
  refused({sound.begin(), sound.end() - 1}, "text 2");
  refused({sound.begin(), sound.begin() + 4}, "text 1");
  std::vector<std::int32_t> bad = sound;
  bad[4] = 3;  // a prompt as long as the text
  refused(bad, "text 1");
  bad = sound;
  bad[0] = 9;  // newer than the next
  refused(bad, "text 2");
}

}  // namespace
}  // namespace fathom::methods::distill
