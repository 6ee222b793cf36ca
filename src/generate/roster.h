#pragma once

#include <span>
#include <vector>

#include "generate/sampling.h"
#include "generate/step.h"

namespace fathom::generate {

struct Prompt {
  std::vector<std::int32_t> ids;
  std::uint64_t sample = 0;  ///< keys the random numbers; usually the number in the data set
};

enum class StopReason {
  stop_id,  ///< an end token was chosen; it is the last of the ids
  max_new,  ///< as many tokens as were asked for
  context,  ///< the model takes no more positions
};

struct Continuation {
  std::vector<std::int32_t> ids;  ///< new tokens only
  std::vector<float> logprobs;    ///< one each; see Choice
  StopReason reason = StopReason::max_new;
};

struct RosterLimits {
  std::int64_t slots = 1;        ///< sequences that run together
  int groups = 1;                ///< slots s, s + groups, s + 2 groups, ... belong to group s
  std::int64_t capacity = 0;     ///< positions of a slot
  std::int64_t max_new = 1;      ///< tokens added to a prompt
  std::int64_t context = 0;      ///< positions of the model
  std::int64_t prompt_rows = 0;  ///< rows of new prompts in a step, unless one alone is longer
  std::vector<std::int32_t> stop_ids;
};

/// Who runs in which slot: new prompts fill the slots that finished sequences leave. It is a pure
/// function of the prompts and the chosen tokens, so that every rank keeps the same one.
class Roster {
 public:
  /// `prompts` must outlive the roster.
  Roster(const std::vector<Prompt>& prompts, RosterLimits limits);

  /// Every prompt has its continuation.
  bool finished() const { return next_ == sequences_.size() && running_ == 0; }

  /// The group's next step; empty if it has nothing to do. Its last step must have been applied.
  Step plan(int group);

  /// Adds the tokens chosen for a step, in the order of its scored rows, and frees the slots of the
  /// sequences that end.
  void apply(const Step& step, std::span<const Choice> choices);

  /// Whether a prompt has its continuation.
  bool ended(std::size_t prompt) const {
    return !sequences_[prompt].ids.empty() && sequences_[prompt].slot < 0;
  }

  /// Prompt and new tokens so far.
  std::span<const std::int32_t> ids(std::size_t prompt) const { return sequences_[prompt].ids; }
  std::uint64_t sample(std::size_t prompt) const { return prompts_[prompt].sample; }

  /// In the order of the prompts; leaves the roster empty.
  std::vector<Continuation> take_results();

 private:
  struct Sequence {
    std::vector<std::int32_t> ids;  // empty until it is admitted
    std::vector<float> logprobs;
    StopReason reason = StopReason::max_new;
    std::int64_t slot = -1;  // -1: waits or has ended
  };
  void admit(Step& step, std::size_t number, std::int64_t slot);
  void append_row(Step& step, std::int64_t slot, std::int32_t id, std::int64_t position) const;
  bool ends(Sequence& sequence, std::size_t prompt_length) const;

  const std::vector<Prompt>& prompts_;
  RosterLimits limits_;
  std::vector<Sequence> sequences_;
  std::vector<std::int64_t> slots_;  // number of the sequence, or -1
  std::size_t next_ = 0;             // the first that waits
  std::size_t running_ = 0;
};

}  // namespace fathom::generate
