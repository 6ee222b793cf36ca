#include "methods/distill/replay_buffer.h"

#include <numeric>

#include "core/error.h"
#include "methods/distill/random_words.h"

namespace fathom::methods::distill {
namespace {

// A text is packed as its sample and its record, low half first, its prompt's length, the number
// of its ids, and the ids.
constexpr std::size_t kHeader = 6;

void put(std::vector<std::int32_t>& numbers, std::int64_t value) {
  numbers.push_back(static_cast<std::int32_t>(value));
  numbers.push_back(static_cast<std::int32_t>(value >> 32));
}

std::int64_t take(std::span<const std::int32_t> two) {
  return static_cast<std::int64_t>(static_cast<std::uint32_t>(two[0])) |
         static_cast<std::int64_t>(two[1]) << 32;
}

}  // namespace

ReplayBuffer::ReplayBuffer(std::size_t capacity) : capacity_(capacity) {
  FATHOM_CHECK(capacity > 0, "a replay buffer without room");
}

void ReplayBuffer::push(AnsweredPrompt text) {
  FATHOM_CHECK(texts_.empty() || texts_.back().sample < text.sample, "sample ", text.sample,
               " after ", texts_.back().sample);
  if (full()) texts_.pop_front();
  texts_.push_back(std::move(text));
}

std::vector<const AnsweredPrompt*> ReplayBuffer::draw(std::size_t count, std::uint64_t seed,
                                                      std::int64_t step,
                                                      std::int64_t micro_batch) const {
  FATHOM_CHECK(count <= size(), count, " texts of ", size());
  std::vector<std::size_t> order(size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<const AnsweredPrompt*> drawn;
  // The first `count` steps of a Fisher-Yates shuffle.
  for (std::size_t i = 0; i < count; ++i) {
    // Draw 0 of the micro-batch chose where its text comes from.
    const double u = uniform(seed, step, micro_batch, static_cast<std::uint32_t>(i + 1));
    const auto ahead = static_cast<std::size_t>(u * static_cast<double>(size() - i));
    std::swap(order[i], order[i + ahead]);
    drawn.push_back(&texts_[order[i]]);
  }
  return drawn;
}

std::vector<std::int32_t> ReplayBuffer::packed() const {
  std::vector<std::int32_t> numbers;
  for (const AnsweredPrompt& text : texts_) {
    put(numbers, text.sample);
    put(numbers, text.record);
    numbers.push_back(text.prompt_length);
    numbers.push_back(static_cast<std::int32_t>(text.ids.size()));
    numbers.insert(numbers.end(), text.ids.begin(), text.ids.end());
  }
  return numbers;
}

void ReplayBuffer::restore(std::span<const std::int32_t> numbers, const std::string& origin) {
  const auto sound = [&](bool holds) {
    require(holds, ErrorKind::io, origin, ": the replay buffer is damaged at its text ",
            texts_.size() + 1);
  };
  texts_.clear();
  while (!numbers.empty()) {
    sound(numbers.size() >= kHeader);
    AnsweredPrompt text{.sample = take(numbers.first(2)),
                        .record = take(numbers.subspan(2, 2)),
                        .prompt_length = numbers[4]};
    const std::int32_t count = numbers[5];
    sound(count > text.prompt_length && text.prompt_length > 0 &&
          numbers.size() - kHeader >= static_cast<std::size_t>(count));
    sound(texts_.empty() || texts_.back().sample < text.sample);
    const auto ids = numbers.subspan(kHeader, static_cast<std::size_t>(count));
    text.ids.assign(ids.begin(), ids.end());
    numbers = numbers.subspan(kHeader + ids.size());
    texts_.push_back(std::move(text));
  }
  while (texts_.size() > capacity_) texts_.pop_front();
}

}  // namespace fathom::methods::distill
