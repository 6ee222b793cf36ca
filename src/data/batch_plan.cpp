#include "data/batch_plan.h"

#include <algorithm>

#include "core/error.h"

namespace fathom::data {
namespace {

void add(BatchCounts& counts, const Dataset& dataset, std::int64_t record) {
  counts.label_tokens += dataset.labels(record);
  const std::int64_t inputs = dataset.inputs(record);
  counts.tokens += inputs;
  counts.squares += inputs * inputs;
  ++counts.sequences;
}

template <typename T>
void compare(std::string& differences, const char* what, const T& was, const T& is) {
  if (was != is) differences += str("\n  ", what, ": was ", was, ", is ", is);
}

}  // namespace

Share share_of(std::int64_t micro_batches, int dp_rank, int dp) {
  FATHOM_CHECK(dp > 0 && dp_rank >= 0 && dp_rank < dp, "rank ", dp_rank, " of ", dp);
  const std::int64_t base = micro_batches / dp;
  const std::int64_t more = micro_batches % dp;
  Share share;
  share.begin = dp_rank * base + std::min<std::int64_t>(dp_rank, more);
  share.end = share.begin + base + (dp_rank < more ? 1 : 0);
  share.slots = base + (more > 0 ? 1 : 0);
  return share;
}

void require_same_data(const DataIdentity& saved, const DataIdentity& now) {
  std::string differences;
  compare(differences, "data set fingerprint", saved.content, now.content);
  compare(differences, "context length", saved.context, now.context);
  compare(differences, "overlong policy", saved.overlong, now.overlong);
  compare(differences, "data seed", saved.seed, now.seed);
  compare(differences, "shuffle", saved.shuffle, now.shuffle);
  compare(differences, "samples per step", saved.samples_per_step, now.samples_per_step);
  compare(differences, "corpus fingerprint", saved.corpus, now.corpus);
  compare(differences, "corpus samples per step", saved.corpus_samples_per_step,
          now.corpus_samples_per_step);
  require(differences.empty(), ErrorKind::config,
          "the training data differs from the checkpoint's:", differences,
          "\nrestore the former values, or start the data anew with run.reset_data=true");
}

TrainBatches::TrainBatches(const Dataset& dataset, BatchPlan plan, std::uint64_t seed, bool shuffle)
    : dataset_(dataset), plan_(plan), order_(seed, dataset.records(), shuffle) {
  require(plan.micro_batches > 0 && plan.micro_batch > 0, ErrorKind::config, plan.micro_batches,
          " micro-batches of ", plan.micro_batch, " sequences; both must be positive");
}

MicroBatch TrainBatches::micro_batch(std::int64_t step, std::int64_t j) const {
  FATHOM_CHECK(step >= 0 && j >= 0 && j < plan_.micro_batches, "step ", step, " micro-batch ", j);
  MicroBatch batch;
  const std::int64_t first = plan_.first_sample(step, j);
  for (std::int64_t sample = first; sample < first + plan_.micro_batch; ++sample) {
    const std::int64_t record = order_.record(sample);
    append(batch, dataset_.record(record), sample, dataset_.file_record(record));
  }
  return batch;
}

MicroBatch TrainBatches::slot(std::int64_t step, const Share& share, std::int64_t slot) const {
  FATHOM_CHECK(slot >= 0 && slot < share.slots, "slot ", slot, " of ", share.slots);
  return slot < share.count() ? micro_batch(step, share.begin + slot) : MicroBatch{};
}

BatchCounts TrainBatches::counts(std::int64_t step, std::int64_t j) const {
  BatchCounts counts;
  const std::int64_t first = plan_.first_sample(step, j);
  for (std::int64_t sample = first; sample < first + plan_.micro_batch; ++sample) {
    add(counts, dataset_, order_.record(sample));
  }
  return counts;
}

BatchCounts TrainBatches::counts(std::int64_t step) const {
  BatchCounts counts;
  for (std::int64_t j = 0; j < plan_.micro_batches; ++j) counts += this->counts(step, j);
  return counts;
}

DataIdentity TrainBatches::identity() const {
  return {.content = dataset_.file().info().content,
          .context = dataset_.context(),
          .overlong = to_string(dataset_.policy()),
          .seed = order_.seed(),
          .shuffle = order_.shuffled(),
          .samples_per_step = plan_.samples_per_step()};
}

EvalBatches::EvalBatches(const Dataset& dataset, std::int64_t micro_batch, std::int64_t limit)
    : dataset_(dataset),
      micro_batch_(micro_batch),
      records_(limit > 0 ? std::min(limit, dataset.records()) : dataset.records()) {
  require(micro_batch > 0, ErrorKind::config, "evaluation micro-batch of ", micro_batch,
          " sequences; at least 1 expected");
}

std::int64_t EvalBatches::micro_batches() const {
  return (records_ + micro_batch_ - 1) / micro_batch_;
}

MicroBatch EvalBatches::micro_batch(std::int64_t j) const {
  FATHOM_CHECK(j >= 0 && j < micro_batches(), "evaluation micro-batch ", j);
  MicroBatch batch;
  const std::int64_t end = std::min((j + 1) * micro_batch_, records_);
  for (std::int64_t record = j * micro_batch_; record < end; ++record) {
    append(batch, dataset_.record(record), record, dataset_.file_record(record));
  }
  return batch;
}

MicroBatch EvalBatches::slot(const Share& share, std::int64_t slot) const {
  FATHOM_CHECK(slot >= 0 && slot < share.slots, "slot ", slot, " of ", share.slots);
  return slot < share.count() ? micro_batch(share.begin + slot) : MicroBatch{};
}

BatchCounts EvalBatches::counts() const {
  BatchCounts counts;
  for (std::int64_t record = 0; record < records_; ++record) add(counts, dataset_, record);
  return counts;
}

}  // namespace fathom::data
