#include "train/pair_source.h"

#include <algorithm>
#include <map>

namespace fathom::train {

using data::Role;
using data::TokenFile;

namespace {

void require_same_prompts(const TokenFile& chosen, const TokenFile& rejected) {
  const std::string both = str(rejected.path().string(), " and ", chosen.path().string());
  require(chosen.info().tokenizer == rejected.info().tokenizer, ErrorKind::data, both,
          ": written with different tokenizers; fathom pairs writes both");
  require(chosen.records() == rejected.records(), ErrorKind::data, both, ": ", rejected.records(),
          " and ", chosen.records(), " records; fathom pairs writes as many to both");
  for (std::int64_t r = 0; r < chosen.records(); ++r) {
    const std::int32_t length = chosen.prompt_length(r);
    const auto prompt = [&](const TokenFile& file) {
      return file.record(r).ids.first(static_cast<std::size_t>(length));
    };
    const bool same =
        rejected.prompt_length(r) == length && std::ranges::equal(prompt(chosen), prompt(rejected));
    require(same, ErrorKind::data, both, ": the prompts of record ", r,
            " differ; a pair is two answers to one prompt");
  }
}

// The records that both data sets kept.
std::vector<std::pair<std::int64_t, std::int64_t>> match(const data::Dataset& chosen,
                                                         const data::Dataset& rejected) {
  std::map<std::int64_t, std::int64_t> others;
  for (std::int64_t i = 0; i < rejected.records(); ++i) others[rejected.file_record(i)] = i;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::int64_t i = 0; i < chosen.records(); ++i)
    if (const auto other = others.find(chosen.file_record(i)); other != others.end())
      pairs.emplace_back(i, other->second);
  require(!pairs.empty(), ErrorKind::data, chosen.file().path().parent_path().string(),
          ": no pair of which both answers fit a context of ", chosen.context());
  return pairs;
}

}  // namespace

PairSource::PairSource(const data::Dataset& chosen, const data::Dataset& rejected,
                       const data::BatchPlan& plan, std::uint64_t seed,
                       const comm::ProcessGrid& grid)
    : chosen_(chosen),
      rejected_(rejected),
      plan_(plan),
      grid_(grid),
      pairs_((require_same_prompts(chosen.file(), rejected.file()), match(chosen, rejected))),
      order_(seed, static_cast<std::int64_t>(pairs_.size())) {}

data::MicroBatch PairSource::micro_batch(const StepClock& clock, std::int64_t j, Role role) const {
  const bool teachers = role == Role::chosen;
  const data::Dataset& dataset = teachers ? chosen_ : rejected_;
  data::MicroBatch batch;
  batch.role = role;
  const std::int64_t first = plan_.first_sample(clock.data, j);
  for (std::int64_t number = first; number < first + plan_.micro_batch; ++number) {
    const auto& pair = pairs_[static_cast<std::size_t>(order_.record(number))];
    const std::int64_t record = teachers ? pair.first : pair.second;
    // Two sequences a pair, each with random numbers of its own.
    append(batch, dataset.record(record), 2 * number + (teachers ? 0 : 1),
           dataset.file_record(record));
  }
  return batch;
}

std::vector<data::MicroBatch> PairSource::upcoming(const StepClock& clock) const {
  return fill_slots(2 * plan_.micro_batches, grid_, [&](std::int64_t slot) {
    return micro_batch(clock, slot / 2, slot % 2 == 0 ? Role::chosen : Role::rejected);
  });
}

StepBatches PairSource::take(const StepClock& clock) {
  StepBatches step;
  step.slots = upcoming(clock);
  for (std::int64_t j = 0; j < plan_.micro_batches; ++j)
    for (const Role role : {Role::chosen, Role::rejected})
      step.counts[role] += data::count(micro_batch(clock, j, role));
  return step;
}

data::DataIdentity PairSource::identity() const {
  return {.content = chosen_.file().info().content + "+" + rejected_.file().info().content,
          .context = chosen_.context(),
          .overlong = to_string(chosen_.policy()),
          .seed = order_.seed(),
          .shuffle = order_.shuffled(),
          .samples_per_step = plan_.samples_per_step()};
}

}  // namespace fathom::train
