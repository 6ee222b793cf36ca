#include "generate/roster.h"

#include <gtest/gtest.h>

namespace fathom::generate {
namespace {

using Ids = std::vector<std::int32_t>;

std::vector<Prompt> prompts_of_lengths(const std::vector<std::size_t>& lengths) {
  std::vector<Prompt> prompts;
  for (const std::size_t length : lengths)
    prompts.push_back({Ids(length, static_cast<std::int32_t>(prompts.size())), prompts.size()});
  return prompts;
}

RosterLimits limits(std::int64_t slots, int groups = 1) {
  return {.slots = slots,
          .groups = groups,
          .capacity = 100,
          .max_new = 3,
          .context = 100,
          .prompt_rows = 50,
          .stop_ids = {9}};
}

// The same token for every sequence of a step.
void apply_all(Roster& roster, const Step& step, std::int32_t id) {
  roster.apply(step, std::vector<Choice>(step.prompts.size(), {id, -1.0f}));
}

TEST(Roster, PacksPromptsThenRunningRows) {
  const auto prompts = prompts_of_lengths({3, 2, 4});
  Roster roster(prompts, limits(2));
  const Step first = roster.plan(0);
  EXPECT_EQ(first.ids, (Ids{0, 0, 0, 1, 1}));
  EXPECT_EQ(first.positions, (Ids{0, 1, 2, 0, 1}));
  EXPECT_EQ(first.cache_rows, (Ids{0, 1, 2, 100, 101}));
  EXPECT_EQ(first.prompt_starts, (Ids{0, 3, 5}));
  EXPECT_EQ(first.prompt_slots, (Ids{0, 1}));
  EXPECT_EQ(first.scored_rows, (Ids{2, 4}));

  // The first ends, the third takes its slot while the second goes on.
  roster.apply(first, std::vector<Choice>{{9, -1.0f}, {7, -2.0f}});
  const Step second = roster.plan(0);
  EXPECT_EQ(second.ids, (Ids{2, 2, 2, 2, 7}));
  EXPECT_EQ(second.positions, (Ids{0, 1, 2, 3, 2}));
  EXPECT_EQ(second.cache_rows, (Ids{0, 1, 2, 3, 102}));
  EXPECT_EQ(second.prompt_rows(), 4);
  EXPECT_EQ(second.slots, (Ids{1}));
  EXPECT_EQ(second.lengths, (Ids{3}));
  EXPECT_EQ(second.scored_rows, (Ids{3, 4}));
  EXPECT_EQ(second.prompts, (std::vector<std::size_t>{2, 1}));
}

TEST(Roster, SaysWhyEachSequenceEnded) {
  const auto prompts = prompts_of_lengths({2, 2, 6});
  RosterLimits l = limits(3);
  l.context = 7;
  Roster roster(prompts, l);
  Step step = roster.plan(0);
  roster.apply(step, std::vector<Choice>{{9, -0.5f}, {1, -1.0f}, {1, -1.0f}});
  while (!roster.finished()) apply_all(roster, step = roster.plan(0), 1);
  const auto results = roster.take_results();
  EXPECT_EQ(results[0].reason, StopReason::stop_id);
  EXPECT_EQ(results[0].ids, (Ids{9}));
  EXPECT_EQ(results[0].logprobs, (std::vector<float>{-0.5f}));
  EXPECT_EQ(results[1].reason, StopReason::max_new);
  EXPECT_EQ(results[1].ids, (Ids{1, 1, 1}));
  EXPECT_EQ(results[2].reason, StopReason::context);
  EXPECT_EQ(results[2].ids, (Ids{1}));
}

TEST(Roster, TakesInNoMorePromptRowsThanAsked) {
  const auto prompts = prompts_of_lengths({40, 10, 1, 60});
  Roster roster(prompts, limits(4));
  const Step first = roster.plan(0);
  EXPECT_EQ(first.prompts, (std::vector<std::size_t>{0, 1}));
  apply_all(roster, first, 1);
  const Step second = roster.plan(0);
  EXPECT_EQ(second.prompts, (std::vector<std::size_t>{2, 0, 1}));
  apply_all(roster, second, 1);
  // Longer than the limit: alone.
  EXPECT_EQ(roster.plan(0).prompts, (std::vector<std::size_t>{3, 0, 1, 2}));
}

TEST(Roster, DividesSlotsOverGroupsAndLeavesNobodyOut) {
  const auto prompts = prompts_of_lengths(std::vector<std::size_t>(23, 3));
  Roster roster(prompts, limits(5, 2));
  std::int32_t id = 0;
  for (int group = 0; !roster.finished(); group = 1 - group) {
    const Step step = roster.plan(group);
    for (const std::int32_t slot : step.slots) EXPECT_EQ(slot % 2, group);
    if (step.empty()) continue;
    std::vector<Choice> choices;
    for (std::size_t i = 0; i < step.prompts.size(); ++i) choices.push_back({++id % 10, 0});
    roster.apply(step, choices);
  }
  for (const Continuation& result : roster.take_results()) {
    EXPECT_GE(result.ids.size(), 1u);
    EXPECT_LE(result.ids.size(), 3u);
  }
}

}  // namespace
}  // namespace fathom::generate
