#include "pipeline/partition.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <tuple>

#include "core/error.h"

namespace fathom::pipeline {
namespace {

std::vector<int> counts(const Partition& partition) {
  std::vector<int> result;
  for (int s = 0; s < partition.stages(); ++s) result.push_back(partition.count(s));
  return result;
}

void for_each_partition(int layers, int stages, const std::function<void(const Partition&)>& visit,
                        std::vector<int> so_far = {}) {
  if (stages == 1) {
    so_far.push_back(layers);
    return visit(Partition(so_far));
  }
  for (int first = 1; first <= layers - stages + 1; ++first) {
    auto next = so_far;
    next.push_back(first);
    for_each_partition(layers - first, stages - 1, visit, next);
  }
}

using Quality = std::tuple<int, double, double>;  // displaced, slowest stage, sum of squares

Quality quality(int displaced, const std::vector<double>& loads) {
  double squares = 0;
  for (const double load : loads) squares += load * load;
  return {displaced, *std::max_element(loads.begin(), loads.end()), squares};
}

bool about_equal(const Quality& a, const Quality& b) {
  return std::get<0>(a) == std::get<0>(b) && std::abs(std::get<1>(a) - std::get<1>(b)) < 1e-9 &&
         std::abs(std::get<2>(a) - std::get<2>(b)) < 1e-9;
}

DepthCosts random_costs(int layers, std::mt19937& random) {
  std::uniform_real_distribution<double> cost(0.5, 2.0);
  DepthCosts costs;
  for (int l = 0; l < layers; ++l) costs.layers.push_back(cost(random));
  costs.embedding = cost(random);
  costs.head = 2 * cost(random);
  return costs;
}

TEST(Partition, KnowsItsLayers) {
  const Partition partition({3, 1, 2});
  EXPECT_EQ(partition.layers(), 6);
  EXPECT_EQ(partition.begin(1), 3);
  EXPECT_EQ(partition.end(2), 6);
  EXPECT_EQ(partition.stage_of(0), 0);
  EXPECT_EQ(partition.stage_of(3), 1);
  EXPECT_EQ(partition.stage_of(4), 2);
  EXPECT_EQ(to_string(partition), "0-2 | 3-3 | 4-5");
}

TEST(BalancedPartition, UniformLayersSplitEvenly) {
  EXPECT_EQ(counts(balanced_partition({std::vector<double>(12, 1.0)}, 4)),
            (std::vector{3, 3, 3, 3}));
  const auto uneven = counts(balanced_partition({std::vector<double>(10, 1.0)}, 4));
  EXPECT_EQ(*std::max_element(uneven.begin(), uneven.end()), 3);
  EXPECT_EQ(*std::min_element(uneven.begin(), uneven.end()), 2);
}

TEST(BalancedPartition, AHeavyHeadTakesLayersFromTheLastStage) {
  EXPECT_EQ(counts(balanced_partition({std::vector<double>(12, 1.0), 0, 4}, 2)),
            (std::vector{8, 4}));
}

TEST(BalancedPartition, EqualsExhaustiveSearch) {
  std::mt19937 random(1);
  for (int layers = 1; layers <= 9; ++layers)
    for (int stages = 1; stages <= std::min(layers, 5); ++stages) {
      const auto costs = random_costs(layers, random);
      Quality best{std::numeric_limits<int>::max(), 0, 0};
      for_each_partition(layers, stages, [&](const Partition& partition) {
        best = std::min(best, quality(0, stage_costs(costs, partition)));
      });
      const auto found = quality(0, stage_costs(costs, balanced_partition(costs, stages)));
      ASSERT_TRUE(about_equal(found, best)) << layers << " layers, " << stages << " stages";
    }
}

void expect_config_error(const std::function<void()>& action, const std::string& part) {
  try {
    action();
    FAIL() << "no error where \"" << part << "\" was expected";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(BalancedPartition, MoreStagesThanLayersAreRefused) {
  expect_config_error(
      [] {
        balanced_partition({{1.0, 1.0}}, 3);
      },
      "grid.pp is 3 but the model has 2 layers");
}

TEST(ExplicitPartition, EachMistakeIsNamed) {
  EXPECT_EQ(counts(explicit_partition({5, 7}, 12, 2, "grid.layers")), (std::vector{5, 7}));
  expect_config_error(
      [] {
        explicit_partition({5, 7}, 12, 3, "grid.layers");
      },
      "grid.layers lists 2 stages but grid.pp is 3");
  expect_config_error(
      [] {
        explicit_partition({5, 6}, 12, 2, "grid.layers");
      },
      "places 11 layers but the model has 12");
  expect_config_error(
      [] {
        explicit_partition({12, 0}, 12, 2, "grid.layers");
      },
      "gives stage 1 0 layers");
}

TEST(ProportionalLayerMap, LastMeetsLast) {
  EXPECT_EQ(proportional_layer_map(10, 30), (std::vector{2, 5, 8, 11, 14, 17, 20, 23, 26, 29}));
  EXPECT_EQ(proportional_layer_map(3, 3), (std::vector{0, 1, 2}));
  EXPECT_EQ(proportional_layer_map(5, 12).back(), 11);
  EXPECT_EQ(proportional_layer_map(4, 2), (std::vector{0, 0, 0, 1}));
}

TEST(TeacherPartition, DeeperTeachersHaveEveryPartnerAtHome) {
  std::mt19937 random(2);
  for (int student_layers = 2; student_layers <= 12; ++student_layers)
    for (int teacher_layers = student_layers; teacher_layers <= 36; teacher_layers += 5)
      for (int stages = 1; stages <= std::min(student_layers, 4); ++stages) {
        const auto student = balanced_partition(random_costs(student_layers, random), stages);
        const auto phi = proportional_layer_map(student_layers, teacher_layers);
        const auto teacher = teacher_partition(random_costs(teacher_layers, random), student, phi);
        EXPECT_TRUE(teacher.displaced.empty());
        for (int l = 0; l < student_layers; ++l)
          ASSERT_EQ(teacher.partition.stage_of(phi[static_cast<std::size_t>(l)]),
                    student.stage_of(l));
      }
}

TEST(TeacherPartition, EqualsExhaustiveSearchForAnyMap) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    const int stages = 1 + trial % 4;
    const int student_layers = stages + static_cast<int>(random() % 4);
    const int teacher_layers = stages + static_cast<int>(random() % 6);
    const auto student = balanced_partition(random_costs(student_layers, random), stages);
    const auto costs = random_costs(teacher_layers, random);
    std::vector<int> phi;
    for (int l = 0; l < student_layers; ++l)
      phi.push_back(random() % 4 == 0
                        ? kNoPartner
                        : static_cast<int>(random() % static_cast<unsigned>(teacher_layers)));
    std::vector<double> load;
    for (int s = 0; s < stages; ++s) load.push_back(static_cast<double>(random() % 5));

    const auto measure = [&](const Partition& partition) {
      int displaced = 0;
      for (int l = 0; l < student_layers; ++l) {
        const int partner = phi[static_cast<std::size_t>(l)];
        displaced += partner != kNoPartner && partition.stage_of(partner) != student.stage_of(l);
      }
      auto loads = stage_costs(costs, partition);
      for (std::size_t s = 0; s < loads.size(); ++s) loads[s] += load[s];
      return quality(displaced, loads);
    };
    Quality best{std::numeric_limits<int>::max(), 0, 0};
    for_each_partition(teacher_layers, stages, [&](const Partition& partition) {
      best = std::min(best, measure(partition));
    });
    const auto found = teacher_partition(costs, student, phi, load);
    ASSERT_TRUE(about_equal(measure(found.partition), best)) << "trial " << trial;
    ASSERT_EQ(static_cast<int>(found.displaced.size()), std::get<0>(best));
  }
}

TEST(TeacherPartition, AShallowTeacherIsRefused) {
  expect_config_error(
      [] {
        teacher_partition({{1.0}}, Partition({1, 1}), {0, 0});
      },
      "the teacher has 1 layers");
}

}  // namespace
}  // namespace fathom::pipeline
