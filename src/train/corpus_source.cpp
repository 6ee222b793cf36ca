#include "train/corpus_source.h"

#include <iterator>

namespace fathom::train {

StepBatches CorpusSource::take(const StepClock& clock) {
  StepBatches step = inner_->take(clock);
  const std::int64_t count = batches_.plan().micro_batches;
  const auto make = [&](std::int64_t j) {
    data::MicroBatch batch = batches_.micro_batch(clock.data, j);
    batch.role = data::Role::corpus;
    // Samples of both files are numbered from 0; random numbers of a step should differ.
    for (std::int64_t& sample : batch.sample_index) sample += std::int64_t{1} << 31;
    return batch;
  };
  // Where the inner source gives the first replicas one micro-batch more, the last get this one.
  const int last = grid_.shape().dp - 1;
  std::vector<data::MicroBatch> more = fill_slots(count, last - grid_.place().dp, last + 1, make);
  step.slots.insert(step.slots.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
  step.counts[data::Role::corpus] += batches_.counts(clock.data);
  return step;
}

data::DataIdentity CorpusSource::identity() const {
  data::DataIdentity identity = inner_->identity();
  const data::DataIdentity corpus = batches_.identity();
  identity.corpus = corpus.content;
  identity.corpus_samples_per_step = corpus.samples_per_step;
  return identity;
}

}  // namespace fathom::train
