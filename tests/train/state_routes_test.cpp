// What travels between stages for losses on hidden states, as a pure function of the partitions.

#include "train/state_routes.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace fathom::train {
namespace {

using methods::KeyState;
using methods::Side;
using methods::Site;

Site pair(std::int64_t student, std::int64_t teacher) {
  return {.states = {{Side::student, student}, {Side::teacher, teacher}}};
}

std::vector<KeyState> states_of(const std::vector<StateRoute>& routes) {
  std::vector<KeyState> states;
  for (const StateRoute& route : routes) states.push_back(route.state);
  return states;
}

// Student blocks 0-1 | 2-3 | 4-5, teacher blocks 0-3 | 4-7 | 8-11.
const pipeline::Partition kStudent({2, 2, 2}), kTeacher({4, 4, 4});

TEST(StateRoutes, PairsOnOneStageNeedNothing) {
  const StateRoutes routes(kStudent, &kTeacher, {pair(1, 3), pair(3, 6), pair(6, 12)});
  EXPECT_TRUE(routes.routes().empty());
  EXPECT_EQ(routes.stage_of_site(0), 0);
  EXPECT_EQ(routes.stage_of_site(1), 1);
  EXPECT_EQ(routes.stage_of_site(2), 2);
  EXPECT_TRUE(routes.wanted(1, {Side::teacher, 6}));
  EXPECT_FALSE(routes.wanted(0, {Side::teacher, 6}));
  EXPECT_EQ(routes.sites_on(2), std::vector<std::size_t>{2});
}

TEST(StateRoutes, TheEarlierStateMovesToTheLaterStage) {
  const StateRoutes routes(kStudent, &kTeacher, {pair(1, 10), pair(5, 3)});
  EXPECT_EQ(routes.stage_of_site(0), 2);
  EXPECT_EQ(routes.stage_of_site(1), 2);
  const std::vector<KeyState> both{{Side::teacher, 3}, {Side::student, 1}};
  EXPECT_EQ(states_of(routes.sent_by(0)), both);
  EXPECT_EQ(states_of(routes.sent_by(1)), both);
  EXPECT_TRUE(routes.wanted(0, {Side::student, 1}));
}

TEST(StateRoutes, ABoundaryStateComesAnywayWithTheBundle) {
  const StateRoutes routes(kStudent, &kTeacher, {pair(2, 5), pair(2, 9)});
  EXPECT_EQ(routes.stage_of_site(0), 1);
  EXPECT_TRUE(routes.sent_by(0).empty());
  const auto sent = routes.sent_by(1);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].state, (KeyState{Side::student, 2}));
  EXPECT_EQ(sent[0].made, 0);
  EXPECT_TRUE(routes.wanted(1, {Side::student, 2}));
}

TEST(StateRoutes, SitesAtTheHeadAreOnTheLastStage) {
  Site site = pair(0, 0);
  site.at_head = true;
  const StateRoutes routes(kStudent, &kTeacher, {site});
  EXPECT_EQ(routes.stage_of_site(0), 2);
  EXPECT_EQ(routes.sent_by(0).size(), 2u);
  EXPECT_EQ(routes.sent_by(1).size(), 2u);
}

TEST(StateRoutes, RefusesLayersThatAreNotThere) {
  testing::expect_error(
      ErrorKind::config, [] { StateRoutes(kStudent, &kTeacher, {pair(7, 12)}); },
      "key layer 7 of the student");
  testing::expect_error(
      ErrorKind::config, [] { StateRoutes(kStudent, &kTeacher, {pair(6, 13)}); },
      "key layer 13 of the teacher");
}

}  // namespace
}  // namespace fathom::train
