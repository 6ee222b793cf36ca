#pragma once

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

/// phi(l) for each student layer l: the teacher layer at the same relative depth, the last one of
/// its share, so that last meets last.
std::vector<int> proportional_layer_map(int student_layers, int teacher_layers);

struct TeacherPartition {
  Partition partition;
  /// Student layers l whose teacher layer phi(l) lies on another stage: their states must travel.
  std::vector<int> displaced;
};

/// phi(l) of a student layer that no loss compares with the teacher's.
inline constexpr int kNoPartner = -1;

/// The teacher's partition that puts as many phi(l) as possible on the stage of student layer l
/// and, among those, balances the stages including `stage_load[s]`, what the student costs there
/// (same unit; empty for none). Throws Error(config) when the teacher has fewer layers than there
/// are stages.
TeacherPartition teacher_partition(const DepthCosts& teacher, const Partition& student,
                                   const std::vector<int>& phi,
                                   const std::vector<double>& stage_load = {});

/// The cost of each stage of a partition.
std::vector<double> stage_costs(const DepthCosts& costs, const Partition& partition);

}  // namespace fathom::pipeline
