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

// The stages that have what a layer puts out: the one that makes it and, where it is handed over,
// the next one.
std::vector<int> stages_with(const Partition& partition, int layer) {
  const int made = partition.stage_of(layer);
  std::vector<int> stages{made};
  if (layer == partition.end(made) - 1 && made + 1 < partition.stages()) stages.push_back(made + 1);
  return stages;
}

int count_apart(const Partition& student, const Partition& teacher,
                const std::vector<ComparedLayers>& compared) {
  int apart = 0;
  for (const ComparedLayers& pair : compared) {
    const auto a = stages_with(student, pair.student), b = stages_with(teacher, pair.teacher);
    apart += std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) == a.end();
  }
  return apart;
}

struct Models {
  int stages;
  DepthCosts student, teacher;
  std::vector<ComparedLayers> compared;

  explicit Models(int trial) : random_(static_cast<unsigned>(trial)) {
    stages = 1 + trial % 3;
    student = random_costs(stages + static_cast<int>(random_() % 4), random_);
    teacher = random_costs(stages + static_cast<int>(random_() % 5), random_);
    for (std::size_t i = 0; i < random_() % 4; ++i)
      compared.push_back({static_cast<int>(random_() % student.layers.size()),
                          static_cast<int>(random_() % teacher.layers.size())});
  }
  Quality measure(const Partition& a, const Partition& b) const {
    auto loads = stage_costs(student, a);
    const auto more = stage_costs(teacher, b);
    for (std::size_t s = 0; s < loads.size(); ++s) loads[s] += more[s];
    return quality(count_apart(a, b, compared), loads);
  }
  /// The best of all pairs of partitions, or of those with the ones given.
  Quality best(const std::optional<Partition>& student_is = std::nullopt,
               const std::optional<Partition>& teacher_is = std::nullopt) const {
    Quality found{std::numeric_limits<int>::max(), 0, 0};
    for_each_partition(static_cast<int>(student.layers.size()), stages, [&](const Partition& a) {
      if (student_is && !(a == *student_is)) return;
      for_each_partition(static_cast<int>(teacher.layers.size()), stages, [&](const Partition& b) {
        if (!teacher_is || b == *teacher_is) found = std::min(found, measure(a, b));
      });
    });
    return found;
  }

 private:
  std::mt19937 random_;
};

TEST(JointPartition, EqualsExhaustiveSearch) {
  for (int trial = 0; trial < 200; ++trial) {
    const Models models(trial);
    const auto found =
        joint_partition(models.student, models.teacher, models.compared, models.stages);
    ASSERT_TRUE(about_equal(models.measure(found.student, found.teacher), models.best()))
        << "trial " << trial;
    ASSERT_EQ(found.apart, count_apart(found.student, found.teacher, models.compared));
  }
}

TEST(JointPartition, KeepsAPartitionThatIsGiven) {
  for (int trial = 0; trial < 60; ++trial) {
    const Models models(trial);
    const Partition student = balanced_partition(models.student, models.stages),
                    teacher = balanced_partition(models.teacher, models.stages);
    const auto first =
        joint_partition(models.student, models.teacher, models.compared, models.stages, student);
    ASSERT_EQ(first.student, student) << "trial " << trial;
    ASSERT_TRUE(about_equal(models.measure(student, first.teacher), models.best(student)));
    const auto second = joint_partition(models.student, models.teacher, models.compared,
                                        models.stages, std::nullopt, teacher);
    ASSERT_EQ(second.teacher, teacher) << "trial " << trial;
    ASSERT_TRUE(
        about_equal(models.measure(second.student, teacher), models.best(std::nullopt, teacher)));
    const auto both = joint_partition(models.student, models.teacher, models.compared,
                                      models.stages, student, teacher);
    ASSERT_EQ(both.student, student);
    ASSERT_EQ(both.teacher, teacher);
  }
}

// 48 and 12 layers whose 24th and 6th, 36th and 9th, last and last are compared: both models are
// cut at the same depth, and the heavy heads take layers of both from the last stage.
TEST(JointPartition, BalancesTheSumOfBothModels) {
  const DepthCosts student{std::vector<double>(12, 3.0), 0, 12},
      teacher{std::vector<double>(48, 2.0), 0, 8};
  const std::vector<ComparedLayers> compared{{5, 23}, {8, 35}, {11, 47}};
  const auto found = joint_partition(student, teacher, compared, 2);
  EXPECT_EQ(found.apart, 0);
  const auto a = stage_costs(student, found.student), b = stage_costs(teacher, found.teacher);
  EXPECT_NEAR(a[0] + b[0], a[1] + b[1], 3.0);  // to the grain of a layer
}

TEST(JointPartition, AShallowTeacherIsRefused) {
  expect_config_error(
      [] {
        joint_partition({{1.0, 1.0}}, {{1.0}}, {}, 2);
      },
      "the teacher has 1 layers");
}

}  // namespace
}  // namespace fathom::pipeline
