#pragma once

#include <optional>
#include <string>
#include <vector>

namespace fathom::pipeline {

/// Which consecutive layers lie on which pipeline stage. Every stage has at least one.
class Partition {
 public:
  /// `counts[s]` layers on stage s.
  explicit Partition(const std::vector<int>& counts);

  int stages() const { return static_cast<int>(first_.size()) - 1; }
  int layers() const { return first_.back(); }
  int begin(int stage) const { return first_[static_cast<std::size_t>(stage)]; }
  int end(int stage) const { return begin(stage + 1); }
  int count(int stage) const { return end(stage) - begin(stage); }
  int stage_of(int layer) const;
  bool operator==(const Partition&) const = default;

 private:
  std::vector<int> first_;
};

/// "0-3 | 4-7 | 8-11".
std::string to_string(const Partition& partition);

/// The cost of a model along its depth, in any one unit (time, flops).
struct DepthCosts {
  std::vector<double> layers;
  double embedding = 0;  ///< added to the first stage
  double head = 0;       ///< added to the last stage
};

/// The partition whose slowest stage is fastest and, among those, the most even one (least sum of
/// squares). Throws Error(config) when there are more stages than layers.
Partition balanced_partition(const DepthCosts& costs, int stages);

/// A partition that the user wrote down as layers per stage. Throws Error(config) unless there is
/// one count per stage, each at least 1, and together they cover every layer exactly once. `key` is
/// the option's name, for the message.
Partition explicit_partition(const std::vector<int>& counts, int layers, int stages,
                             const std::string& key);

/// Layers of two models, counted from 0, whose outputs a loss compares.
struct ComparedLayers {
  int student = 0, teacher = 0;
};

/// Where the layers of student and teacher lie.
struct JointPartition {
  Partition student, teacher;
  int apart = 0;  ///< compared pairs that no stage has both of: a state must travel for them
};

/// The partitions of both models that keep as many compared pairs as possible on one stage and,
/// among those, the partitions whose slowest stage, with what it has of both models, is fastest;
/// then the most even ones. What the last layer of a stage puts out is on the next stage as well. A
/// partition given as `fixed_student` or `fixed_teacher` is kept. Throws Error(config) when a model
/// has fewer layers than there are stages.
JointPartition joint_partition(const DepthCosts& student, const DepthCosts& teacher,
                               const std::vector<ComparedLayers>& compared, int stages,
                               const std::optional<Partition>& fixed_student = std::nullopt,
                               const std::optional<Partition>& fixed_teacher = std::nullopt);

/// The cost of each stage of a partition.
std::vector<double> stage_costs(const DepthCosts& costs, const Partition& partition);

}  // namespace fathom::pipeline
