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
  RangeCosts(const DepthCosts& costs, int stages, std::vector<double> stage_load)
      : prefix_(costs.layers.size() + 1, 0.0), extra_(std::move(stage_load)) {
    std::partial_sum(costs.layers.begin(), costs.layers.end(), prefix_.begin() + 1);
    extra_.resize(static_cast<std::size_t>(stages), 0.0);
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
  return Partition(
      best_split(layers, stages, RangeCosts(costs, stages, {}), [](int, int, int) { return 0; }));
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

std::vector<int> proportional_layer_map(int student_layers, int teacher_layers) {
  FATHOM_CHECK(student_layers >= 1 && teacher_layers >= 1, student_layers, " student and ",
               teacher_layers, " teacher layers");
  std::vector<int> phi;
  for (int l = 0; l < student_layers; ++l)
    phi.push_back(std::max(0, (l + 1) * teacher_layers / student_layers - 1));
  return phi;
}

TeacherPartition teacher_partition(const DepthCosts& teacher, const Partition& student,
                                   const std::vector<int>& phi,
                                   const std::vector<double>& stage_load) {
  const int layers = static_cast<int>(teacher.layers.size());
  const int stages = student.stages();
  check_enough_layers("teacher", layers, stages);
  FATHOM_CHECK(static_cast<int>(phi.size()) == student.layers(), "phi has ", phi.size(),
               " entries for ", student.layers(), " student layers");
  FATHOM_CHECK(stage_load.empty() || static_cast<int>(stage_load.size()) == stages,
               stage_load.size(), " loads for ", stages, " stages");
  for (const int layer : phi)
    FATHOM_CHECK(layer == kNoPartner || (layer >= 0 && layer < layers), "phi names teacher layer ",
                 layer, " of ", layers);

  const auto displaced = [&](int stage, int begin, int end) {
    int count = 0;
    for (int l = student.begin(stage); l < student.end(stage); ++l) {
      const int partner = phi[static_cast<std::size_t>(l)];
      if (partner != kNoPartner && (partner < begin || partner >= end)) ++count;
    }
    return count;
  };
  TeacherPartition result{
      Partition(best_split(layers, stages, RangeCosts(teacher, stages, stage_load), displaced)),
      {}};
  for (int l = 0; l < student.layers(); ++l) {
    const int partner = phi[static_cast<std::size_t>(l)];
    if (partner != kNoPartner && result.partition.stage_of(partner) != student.stage_of(l))
      result.displaced.push_back(l);
  }
  return result;
}

std::vector<double> stage_costs(const DepthCosts& costs, const Partition& partition) {
  const RangeCosts cost(costs, partition.stages(), {});
  std::vector<double> result;
  for (int s = 0; s < partition.stages(); ++s)
    result.push_back(cost(s, partition.begin(s), partition.end(s)));
  return result;
}

}  // namespace fathom::pipeline
