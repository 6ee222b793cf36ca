#pragma once

// The token losses by their definitions, in double, from states and heads.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/loss.h"

namespace fathom::test {

/// Sizes of a head's problem: rows, widths of the states, entries of each head, entries that count.
struct LossSizes {
  std::int64_t rows, width, vocab;
  std::int64_t teacher_width = 0, teacher_vocab = 0;  ///< 0 = no teacher
  std::int64_t counted() const {
    return teacher_vocab == 0 ? vocab : std::min(vocab, teacher_vocab);
  }
};

inline std::vector<double> logits_of_row(const std::vector<double>& states,
                                         const std::vector<double>& head, std::int64_t row,
                                         std::int64_t width, std::int64_t count) {
  std::vector<double> logits(static_cast<std::size_t>(count), 0.0);
  for (std::int64_t v = 0; v < count; ++v)
    for (std::int64_t c = 0; c < width; ++c)
      logits[static_cast<std::size_t>(v)] += states[static_cast<std::size_t>(row * width + c)] *
                                             head[static_cast<std::size_t>(v * width + c)];
  return logits;
}

/// log softmax(logits / temperature).
inline std::vector<double> log_softmax(std::vector<double> logits, double temperature) {
  for (double& z : logits) z /= temperature;
  const double largest = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const double z : logits) total += std::exp(z - largest);
  for (double& z : logits) z -= largest + std::log(total);
  return logits;
}

struct DefinedLoss {
  double cross_entropy = 0, forward_kl = 0;
  std::int64_t correct = 0;
  double weighted(const kernels::TokenLoss& loss) const {
    return static_cast<double>(loss.ce_weight) * cross_entropy +
           static_cast<double>(loss.kl_weight) * forward_kl;
  }
};

/// Sums over all rows. `in` is {states, head[, teacher states, teacher head]}.
inline DefinedLoss defined_loss(const LossSizes& sizes, double temperature,
                                const std::vector<std::vector<double>>& in,
                                const std::vector<std::int32_t>& labels) {
  DefinedLoss sums;
  for (std::int64_t r = 0; r < sizes.rows; ++r) {
    const auto z = logits_of_row(in[0], in[1], r, sizes.width, sizes.counted());
    const auto label = static_cast<std::size_t>(labels[static_cast<std::size_t>(r)]);
    sums.cross_entropy -= log_softmax(z, 1)[label];
    sums.correct += z[label] >= *std::max_element(z.begin(), z.end()) ? 1 : 0;
    if (sizes.teacher_vocab == 0) continue;
    const auto log_q = log_softmax(z, temperature);
    const auto log_p = log_softmax(
        logits_of_row(in[2], in[3], r, sizes.teacher_width, sizes.counted()), temperature);
    for (std::size_t v = 0; v < log_p.size(); ++v)
      sums.forward_kl += std::exp(log_p[v]) * (log_p[v] - log_q[v]);
  }
  return sums;
}

}  // namespace fathom::test
