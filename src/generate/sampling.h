#pragma once

#include <cstdint>
#include <span>

namespace fathom::generate {

/// How the next token is chosen from the logits. Logits are divided by the temperature, then top_k,
/// then top_p cut them down; what is left is sampled in proportion.
struct Sampling {
  double temperature = 0;   ///< 0: greedy, the largest logit, the lowest id of equals
  int top_k = 0;            ///< keep the k largest, lower ids first among equals; 0: all
  double top_p = 1;         ///< keep the fewest with at least this share of the probability; 1: all
  int no_repeat_ngram = 0;  ///< no run of this many tokens twice, the prompt's included; 0: off
  std::uint64_t seed = 1;

  bool greedy() const { return temperature == 0; }
};

/// Throws Error(config) naming the value that is out of range.
void validate(const Sampling& sampling);

/// A chosen token and its log-probability under the model: the softmax of its logits, before
/// temperature and cuts.
struct Choice {
  std::int32_t id = 0;
  float logprob = 0;
};

/// A number in [0, 1) for the token that becomes number `position` of a sequence: a function of
/// (seed, sample, position) alone, whatever the batch and the grid.
double uniform(std::uint64_t seed, std::uint64_t sample, std::int64_t position);

/// Sets the logits of all ids that would complete a run of n tokens that `ids` already has to
/// -infinity. Where that would leave no id, nothing is changed.
void ban_repeats(std::span<const std::int32_t> ids, int n, std::span<float> logits);

/// The id that `u` of uniform() falls on. Logits are finite or -infinity (never chosen), and not
/// all of them -infinity.
std::int32_t choose(std::span<const float> logits, const Sampling& sampling, double u);

}  // namespace fathom::generate
