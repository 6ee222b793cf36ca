#pragma once

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "train/batch_source.h"

namespace fathom::train {

/// The two files in a folder of pairs: record by record the same prompts, with the teacher's and
/// with the student's answers (data_tools/FORMAT.md).
struct PairFiles {
  std::filesystem::path chosen, rejected;
};
inline PairFiles pair_files(const std::filesystem::path& folder) {
  return {folder / "chosen.h5", folder / "rejected.h5"};
}

/// Pairs of answers to one prompt, for DistiLLM-2. A step has two micro-batches for each of its
/// plan: the teacher's answers to some prompts, and the student's to the same.
class PairSource : public BatchSource {
 public:
  /// The data sets and the grid must outlive the source. Throws Error(data) naming the first record
  /// in which the files do not match, and if the context leaves no whole pair.
  PairSource(const data::Dataset& chosen, const data::Dataset& rejected,
             const data::BatchPlan& plan, std::uint64_t seed, const comm::ProcessGrid& grid);

  StepBatches take(const StepClock& clock) override;
  std::vector<data::MicroBatch> upcoming(const StepClock& clock) const override;
  data::DataIdentity identity() const override;

  std::int64_t pairs() const { return static_cast<std::int64_t>(pairs_.size()); }

 private:
  data::MicroBatch micro_batch(const StepClock& clock, std::int64_t j, data::Role role) const;

  const data::Dataset &chosen_, &rejected_;
  data::BatchPlan plan_;
  const comm::ProcessGrid& grid_;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs_;  // records of both data sets
  data::SampleOrder order_;
};

}  // namespace fathom::train
