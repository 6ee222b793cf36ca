#include "generate/roster.h"

#include <algorithm>

#include "core/error.h"

namespace fathom::generate {

Roster::Roster(const std::vector<Prompt>& prompts, RosterLimits limits)
    : prompts_(prompts),
      limits_(std::move(limits)),
      sequences_(prompts.size()),
      slots_(static_cast<std::size_t>(limits_.slots), -1) {}

void Roster::append_row(Step& step, std::int64_t slot, std::int32_t id,
                        std::int64_t position) const {
  step.ids.push_back(id);
  step.positions.push_back(static_cast<std::int32_t>(position));
  step.cache_rows.push_back(static_cast<std::int32_t>(slot * limits_.capacity + position));
}

void Roster::admit(Step& step, std::size_t number, std::int64_t slot) {
  Sequence& sequence = sequences_[number];
  sequence.ids = prompts_[number].ids;
  sequence.slot = slot;
  slots_[static_cast<std::size_t>(slot)] = static_cast<std::int64_t>(number);
  ++running_;
  std::int64_t position = 0;
  for (const std::int32_t id : sequence.ids) append_row(step, slot, id, position++);
  step.prompt_starts.push_back(static_cast<std::int32_t>(step.rows()));
  step.prompt_slots.push_back(static_cast<std::int32_t>(slot));
  step.scored_rows.push_back(static_cast<std::int32_t>(step.rows() - 1));
  step.prompts.push_back(number);
}

Step Roster::plan(int group) {
  Step step;
  std::vector<std::int64_t> occupied;
  for (std::int64_t slot = group; slot < limits_.slots; slot += limits_.groups) {
    if (slots_[static_cast<std::size_t>(slot)] >= 0) {
      occupied.push_back(slot);
      continue;
    }
    if (next_ == sequences_.size()) continue;
    const auto rows = static_cast<std::int64_t>(prompts_[next_].ids.size());
    if (!step.empty() && step.rows() + rows > limits_.prompt_rows) continue;
    admit(step, next_++, slot);
  }
  for (const std::int64_t slot : occupied) {
    const auto number = static_cast<std::size_t>(slots_[static_cast<std::size_t>(slot)]);
    const Sequence& sequence = sequences_[number];
    const auto length = static_cast<std::int64_t>(sequence.ids.size());
    append_row(step, slot, sequence.ids.back(), length - 1);
    step.slots.push_back(static_cast<std::int32_t>(slot));
    step.lengths.push_back(static_cast<std::int32_t>(length));
    step.scored_rows.push_back(static_cast<std::int32_t>(step.rows() - 1));
    step.prompts.push_back(number);
  }
  return step;
}

bool Roster::ends(Sequence& sequence, std::size_t prompt_length) const {
  const auto& stops = limits_.stop_ids;
  const auto length = static_cast<std::int64_t>(sequence.ids.size());
  if (std::find(stops.begin(), stops.end(), sequence.ids.back()) != stops.end()) {
    sequence.reason = StopReason::stop_id;
    return true;
  }
  if (length - static_cast<std::int64_t>(prompt_length) >= limits_.max_new) {
    sequence.reason = StopReason::max_new;
    return true;
  }
  sequence.reason = StopReason::context;
  return length >= limits_.context;
}

void Roster::apply(const Step& step, std::span<const Choice> choices) {
  FATHOM_CHECK(choices.size() == step.prompts.size(), choices.size(), " tokens for ",
               step.prompts.size(), " sequences");
  for (std::size_t i = 0; i < choices.size(); ++i) {
    Sequence& sequence = sequences_[step.prompts[i]];
    sequence.ids.push_back(choices[i].id);
    sequence.logprobs.push_back(choices[i].logprob);
    if (!ends(sequence, prompts_[step.prompts[i]].ids.size())) continue;
    slots_[static_cast<std::size_t>(sequence.slot)] = -1;
    sequence.slot = -1;
    --running_;
  }
}

std::vector<Continuation> Roster::take_results() {
  std::vector<Continuation> results;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    Sequence& sequence = sequences_[i];
    const auto begin = sequence.ids.begin() + static_cast<std::ptrdiff_t>(prompts_[i].ids.size());
    results.push_back({{begin, sequence.ids.end()}, std::move(sequence.logprobs), sequence.reason});
  }
  sequences_.clear();
  return results;
}

}  // namespace fathom::generate
