#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace fathom::methods::distill {

/// A record's prompt and what a model answered to it, its end-of-text included.
struct AnsweredPrompt {
  std::int64_t sample = 0;  ///< number that keyed the random numbers
  std::int64_t record = 0;  ///< of the token file: whose prompt it is
  std::int32_t prompt_length = 0;
  std::vector<std::int32_t> ids = {};

  bool operator==(const AnsweredPrompt&) const = default;
};

/// The newest answers of the student, first in, first out: one buffer for a whole job, of which
/// every rank keeps a copy. It changes by the same calls on all ranks, so the copies stay equal on
/// any grid.
class ReplayBuffer {
 public:
  /// `capacity` > 0 texts, of all ranks together.
  explicit ReplayBuffer(std::size_t capacity);

  /// Adds the newest text; the oldest leaves a full buffer. Throws Error(internal) unless its
  /// sample's number is greater than that of the text before.
  void push(AnsweredPrompt text);

  std::size_t size() const { return texts_.size(); }
  std::size_t capacity() const { return capacity_; }
  bool full() const { return texts_.size() == capacity_; }
  const std::deque<AnsweredPrompt>& texts() const { return texts_; }

  /// `count` different texts for a micro-batch, a function of the content and of (seed, step,
  /// micro_batch). Needs size() >= count.
  std::vector<const AnsweredPrompt*> draw(std::size_t count, std::uint64_t seed, std::int64_t step,
                                          std::int64_t micro_batch) const;

  /// The content as numbers, and back. restore() keeps the newest texts if the capacity has become
  /// smaller; throws Error(io) naming `origin` for numbers that are no content.
  std::vector<std::int32_t> packed() const;
  void restore(std::span<const std::int32_t> numbers, const std::string& origin);

 private:
  std::size_t capacity_;
  std::deque<AnsweredPrompt> texts_;
};

}  // namespace fathom::methods::distill
