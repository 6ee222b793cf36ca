#pragma once

#include <cstdint>
#include <string>

#include "data/batch.h"
#include "data/dataset.h"
#include "data/sampler.h"

namespace fathom::data {

/// How an optimizer step is made of samples, whatever the grid: micro-batch j of step s holds the
/// global sample numbers (s * micro_batches + j) * micro_batch + k, 0 <= k < micro_batch.
struct BatchPlan {
  std::int64_t micro_batches = 1;  ///< per step, over all data-parallel ranks
  std::int64_t micro_batch = 1;    ///< sequences in each

  std::int64_t samples_per_step() const { return micro_batches * micro_batch; }
  std::int64_t first_sample(std::int64_t step, std::int64_t j) const {
    return (step * micro_batches + j) * micro_batch;
  }
};

/// The micro-batches [begin, end) that a data-parallel rank takes: one block each, the first ranks
/// taking one more where dp does not divide them. Every rank runs `slots` of them, those beyond its
/// block empty, so that collectives match.
struct Share {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t slots = 0;

  std::int64_t count() const { return end - begin; }
};
Share share_of(std::int64_t micro_batches, int dp_rank, int dp);

/// What fixes the sequence of training samples. Saved in every checkpoint.
struct DataIdentity {
  std::string content;  ///< the token file's fingerprint
  std::int64_t context = 0;
  std::string overlong;
  std::uint64_t seed = 0;
  bool shuffle = true;
  std::int64_t samples_per_step = 0;
  std::string corpus = {};  ///< fingerprint of the second token file; empty without one
  std::int64_t corpus_samples_per_step = 0;

  friend bool operator==(const DataIdentity&, const DataIdentity&) = default;
};

/// Throws Error(config) listing "was ..., is ..." for all that differs between a checkpoint's data
/// and this run's: going on would silently redefine which samples were seen.
void require_same_data(const DataIdentity& saved, const DataIdentity& now);

/// The micro-batches of training. Every rank may make any of them; nothing is remembered between
/// calls, so a run resumes at any step by asking for it. Keeps a reference to the data set.
class TrainBatches {
 public:
  /// Throws Error(config) unless both numbers of the plan are positive.
  TrainBatches(const Dataset& dataset, BatchPlan plan, std::uint64_t seed, bool shuffle = true);

  /// Micro-batch j of step s, 0 <= j < micro_batches; sample_index holds the global sample numbers.
  MicroBatch micro_batch(std::int64_t step, std::int64_t j) const;
  /// An empty one for j beyond the share's block.
  MicroBatch slot(std::int64_t step, const Share& share, std::int64_t slot) const;
  /// Counts of a micro-batch and of a whole step, from the index alone (no id is read).
  BatchCounts counts(std::int64_t step, std::int64_t j) const;
  BatchCounts counts(std::int64_t step) const;
  /// Epoch of the first sample of a step.
  std::int64_t epoch(std::int64_t step) const { return order_.epoch(plan_.first_sample(step, 0)); }

  /// The data set's record that is sample `number` of the run.
  std::int64_t record(std::int64_t number) const { return order_.record(number); }

  const BatchPlan& plan() const { return plan_; }
  const Dataset& dataset() const { return dataset_; }
  DataIdentity identity() const;

 private:
  const Dataset& dataset_;
  BatchPlan plan_;
  SampleOrder order_;
};

/// Every record once, in file order, in micro-batches of `micro_batch` (the last may hold fewer).
/// sample_index is the record's number in the data set. Keeps a reference to the data set.
class EvalBatches {
 public:
  /// `limit` > 0 takes the first so many records only. Throws Error(config) for micro_batch < 1.
  EvalBatches(const Dataset& dataset, std::int64_t micro_batch, std::int64_t limit = 0);

  std::int64_t micro_batches() const;
  MicroBatch micro_batch(std::int64_t j) const;
  /// An empty one for slots beyond the share's block.
  MicroBatch slot(const Share& share, std::int64_t slot) const;
  BatchCounts counts() const;

 private:
  const Dataset& dataset_;
  std::int64_t micro_batch_;
  std::int64_t records_;
};

}  // namespace fathom::data
