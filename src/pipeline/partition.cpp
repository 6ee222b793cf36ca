#include "pipeline/partition.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "pipeline/best_split.h"

namespace fathom::pipeline {
namespace {

/// Costs of ranges of layers, with the parts that only the first and the last stage have.
class RangeCosts {
 public:
  RangeCosts(const DepthCosts& costs, int stages)
      : prefix_(costs.layers.size() + 1, 0.0), extra_(static_cast<std::size_t>(stages), 0.0) {
    std::partial_sum(costs.layers.begin(), costs.layers.end(), prefix_.begin() + 1);
    extra_.front() += costs.embedding;
    extra_.back() += costs.head;
  }

  double operator()(int stage, int begin, int end) const {
    return prefix_[static_cast<std::size_t>(end)] - prefix_[static_cast<std::size_t>(begin)] +
           extra_[static_cast<std::size_t>(stage)];
  }

 private:
  std::vector<double> prefix_;
  std::vector<double> extra_;
};

void check_enough_layers(const char* model, int layers, int stages) {
  require(stages >= 1 && stages <= layers, ErrorKind::config, "grid.pp is ", stages, " but the ",
          model, " has ", layers, " layers: every stage needs at least one");
}

}  // namespace

Partition::Partition(const std::vector<int>& counts) : first_{0} {
  FATHOM_CHECK(!counts.empty(), "a partition has at least one stage");
  for (const int count : counts) {
    FATHOM_CHECK(count >= 1, "a stage of ", count, " layers");
    first_.push_back(first_.back() + count);
  }
}

int Partition::stage_of(int layer) const {
  FATHOM_CHECK(layer >= 0 && layer < layers(), "layer ", layer, " of ", layers());
  return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), layer) - first_.begin()) -
         1;
}

std::string to_string(const Partition& partition) {
  std::string text;
  for (int s = 0; s < partition.stages(); ++s) {
    if (s > 0) text += " | ";
    text += str(partition.begin(s), "-", partition.end(s) - 1);
  }
  return text;
}

Partition balanced_partition(const DepthCosts& costs, int stages) {
  const int layers = static_cast<int>(costs.layers.size());
  check_enough_layers("model", layers, stages);
  const RangeCosts cost(costs, stages);
  // Beside a model of one layer a stage, which costs nothing.
  const Split split = best_split(
      layers, stages, stages,
      [&](const StageLayers& at) { return cost(at.stage, at.begin, at.end); },
      [](const StageLayers&) { return 0; });
  return Partition(split.lengths);
}

Partition explicit_partition(const std::vector<int>& counts, int layers, int stages,
                             const std::string& key) {
  require(static_cast<int>(counts.size()) == stages, ErrorKind::config, key, " lists ",
          counts.size(), " stages but grid.pp is ", stages);
  for (std::size_t s = 0; s < counts.size(); ++s) {
    require(counts[s] >= 1, ErrorKind::config, key, " gives stage ", s, " ", counts[s],
            " layers: every stage needs at least one");
  }
  const long long total = std::accumulate(counts.begin(), counts.end(), 0LL);
  require(total == layers, ErrorKind::config, key, " places ", total, " layers but the model has ",
          layers);
  return Partition(counts);
}

namespace {

// Whether a stage has a layer's output: its own layers', and the input that it begins with.
bool has_output(int layer, int begin, int end) {
  return layer >= begin - 1 && layer < end;
}

// Pairs that meet on a stage for the first time: where both models hand over at the same place, the
// stage before has met them.
int newly_met(const std::vector<ComparedLayers>& compared, const StageLayers& at) {
  return static_cast<int>(
      std::count_if(compared.begin(), compared.end(), [&](const ComparedLayers& pair) {
        const bool before = pair.student == at.begin - 1 && pair.teacher == at.other_begin - 1;
        return !before && has_output(pair.student, at.begin, at.end) &&
               has_output(pair.teacher, at.other_begin, at.other_end);
      }));
}

bool agrees(const std::optional<Partition>& fixed, int stage, int begin, int end) {
  return !fixed || (fixed->begin(stage) == begin && fixed->end(stage) == end);
}

}  // namespace

JointPartition joint_partition(const DepthCosts& student, const DepthCosts& teacher,
                               const std::vector<ComparedLayers>& compared, int stages,
                               const std::optional<Partition>& fixed_student,
                               const std::optional<Partition>& fixed_teacher) {
  const int layers = static_cast<int>(student.layers.size());
  const int teacher_layers = static_cast<int>(teacher.layers.size());
  check_enough_layers("model", layers, stages);
  check_enough_layers("teacher", teacher_layers, stages);
  for (const ComparedLayers& pair : compared)
    FATHOM_CHECK(pair.student >= 0 && pair.student < layers && pair.teacher >= 0 &&
                     pair.teacher < teacher_layers,
                 "layers ", pair.student, " of ", layers, " and ", pair.teacher, " of ",
                 teacher_layers);
  const RangeCosts student_cost(student, stages), teacher_cost(teacher, stages);
  const int pairs = static_cast<int>(compared.size());
  const auto cost = [&](const StageLayers& at) {
    return student_cost(at.stage, at.begin, at.end) +
           teacher_cost(at.stage, at.other_begin, at.other_end);
  };
  // A stage that is not the fixed one costs more than any pairs can make up for.
  const auto penalty = [&](const StageLayers& at) {
    const bool allowed = agrees(fixed_student, at.stage, at.begin, at.end) &&
                         agrees(fixed_teacher, at.stage, at.other_begin, at.other_end);
    return (allowed ? 0 : pairs + 1) - newly_met(compared, at);
  };
  const Split split = best_split(layers, teacher_layers, stages, cost, penalty);
  JointPartition result{Partition(split.lengths), Partition(split.other_lengths), pairs};
  for (int s = 0; s < stages; ++s)
    result.apart -= newly_met(compared, {s, result.student.begin(s), result.student.end(s),
                                         result.teacher.begin(s), result.teacher.end(s)});
  return result;
}

std::vector<double> stage_costs(const DepthCosts& costs, const Partition& partition) {
  const RangeCosts cost(costs, partition.stages());
  std::vector<double> result;
  for (int s = 0; s < partition.stages(); ++s)
    result.push_back(cost(s, partition.begin(s), partition.end(s)));
  return result;
}

}  // namespace fathom::pipeline
