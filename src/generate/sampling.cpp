#include "generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/philox.h"

namespace fathom::generate {
namespace {

constexpr std::uint32_t kSamplingStream = 0x73616d70;  // apart from dropout and initialisation

// Probabilities up to a common factor.
class Weights {
 public:
  Weights(std::span<const float> logits, double temperature)
      : logits_(logits),
        largest_(*std::max_element(logits.begin(), logits.end())),
        inverse_(static_cast<float>(1.0 / temperature)) {}

  double operator()(std::int32_t id) const {
    return std::exp((logits_[static_cast<std::size_t>(id)] - largest_) * inverse_);
  }

 private:
  std::span<const float> logits_;
  float largest_, inverse_;
};

// The first of `ids` up to which the weights reach the share u of their sum.
std::int32_t draw(const std::vector<std::int32_t>& ids, const Weights& weight, double u) {
  std::vector<double> reached(ids.size());
  double total = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) reached[i] = total += weight(ids[i]);
  // upper_bound: an id of weight zero reaches no further than the one before it, so is never found.
  const auto found = std::upper_bound(reached.begin(), reached.end(), u * total);
  // u * total may round up to the total.
  const auto last = std::lower_bound(reached.begin(), reached.end(), total);
  return ids[static_cast<std::size_t>(std::min(found, last) - reached.begin())];
}

// Cuts `ids` to the fewest whose weights reach the share p, in descending order. Sorting goes on
// only as far as it is needed: the head of a distribution is short.
template <typename Before>
void keep_top_p(std::vector<std::int32_t>& ids, const Weights& weight, double p, Before before) {
  double total = 0, reached = 0;
  for (const std::int32_t id : ids) total += weight(id);
  std::size_t sorted = 0;
  while (sorted < ids.size()) {
    const std::size_t end = std::min(ids.size(), std::max<std::size_t>(64, 4 * sorted));
    std::partial_sort(ids.begin() + static_cast<std::ptrdiff_t>(sorted),
                      ids.begin() + static_cast<std::ptrdiff_t>(end), ids.end(), before);
    for (; sorted < end; ++sorted) {
      reached += weight(ids[sorted]);
      if (reached < p * total) continue;
      ids.resize(sorted + 1);
      return;
    }
  }
}

}  // namespace

void validate(const Sampling& s) {
  require(std::isfinite(s.temperature) && s.temperature >= 0, ErrorKind::config,
          "temperature = ", s.temperature, ": a number of at least 0 is needed (0 is greedy)");
  require(s.top_k >= 0, ErrorKind::config, "top_k = ", s.top_k,
          ": at least 0 is needed (0 keeps all)");
  require(s.top_p > 0 && s.top_p <= 1, ErrorKind::config, "top_p = ", s.top_p,
          ": a number above 0 and at most 1 is needed (1 keeps all)");
  require(s.no_repeat_ngram >= 0, ErrorKind::config, "no_repeat_ngram = ", s.no_repeat_ngram,
          ": at least 0 is needed (0 allows repetition)");
}

double uniform(std::uint64_t seed, std::uint64_t sample, std::int64_t position) {
  const Philox words =
      philox(static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
             static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(sample),
             static_cast<std::uint32_t>(sample >> 32), kSamplingStream);
  const std::uint64_t bits = std::uint64_t{words.v[0]} << 21 ^ words.v[1] >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

void ban_repeats(std::span<const std::int32_t> ids, int n, std::span<float> logits) {
  const auto run = static_cast<std::size_t>(n);
  if (n <= 0 || ids.size() < run) return;
  const auto newest = ids.last(run - 1);
  std::vector<std::size_t> banned;
  for (std::size_t end = run - 1; end < ids.size(); ++end)
    if (std::equal(newest.begin(), newest.end(),
                   ids.begin() + static_cast<std::ptrdiff_t>(end - run + 1)))
      banned.push_back(static_cast<std::size_t>(ids[end]));
  std::vector<float> kept;
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (const std::size_t id : banned) {
    kept.push_back(logits[id]);
    logits[id] = kNever;
  }
  if (std::any_of(logits.begin(), logits.end(), [](float x) { return x > kNever; })) return;
  // Last ban first: an id that is banned twice gets back what it had before both.
  for (std::size_t i = banned.size(); i-- > 0;) logits[banned[i]] = kept[i];
}

std::int32_t choose(std::span<const float> logits, const Sampling& sampling, double u) {
  if (sampling.greedy())
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) -
                                     logits.begin());
  const auto before = [logits](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto k = static_cast<std::size_t>(sampling.top_k);
  if (k > 0 && k < ids.size()) {
    const auto end = ids.begin() + static_cast<std::ptrdiff_t>(k);
    std::nth_element(ids.begin(), end, ids.end(), before);
    ids.erase(end, ids.end());
    std::sort(ids.begin(), ids.end(), before);
  }
  const Weights weight(logits, sampling.temperature);
  if (sampling.top_p < 1) keep_top_p(ids, weight, sampling.top_p, before);
  return draw(ids, weight, u);
}

}  // namespace fathom::generate
