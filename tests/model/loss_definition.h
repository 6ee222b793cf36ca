#pragma once

// The token losses by their definitions, in double, from states and heads.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "divergence_definition.h"
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

/// A head's problem: what is minimised over which rows.
struct LossCase {
  LossSizes sizes;
  kernels::TokenLoss loss;
  std::vector<std::int32_t> labels = {};
  std::vector<float> row_weights = {};  ///< [rows, 2], or empty
  std::vector<float> row_alpha = {};    ///< [rows], or empty
};

struct DefinedLoss {
  double cross_entropy = 0, divergence = 0, objective = 0;
  std::int64_t correct = 0;
  std::vector<double> student_log_probs, teacher_log_probs;
};

/// Sums over all rows. `in` is {states, head[, teacher states, teacher head]}; `fixed` are
/// the inputs where no gradient goes through them (see defined_divergence).
inline DefinedLoss defined_loss(const LossCase& c, const std::vector<std::vector<double>>& in,
                                const std::vector<std::vector<double>>& fixed) {
  const LossSizes& s = c.sizes;
  const double temperature = static_cast<double>(c.loss.temperature);
  DefinedLoss sums;
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const auto row = static_cast<std::size_t>(r);
    const auto label = static_cast<std::size_t>(c.labels[row]);
    const auto student_logits = [&](const std::vector<std::vector<double>>& from) {
      return logits_of_row(from[0], from[1], r, s.width, s.counted());
    };
    const auto weight = [&](std::size_t column) {
      return c.row_weights.empty() ? 1.0 : static_cast<double>(c.row_weights[2 * row + column]);
    };
    const auto z = student_logits(in);
    sums.student_log_probs.push_back(log_softmax(z, 1)[label]);
    const double cross_entropy = -sums.student_log_probs.back();
    sums.cross_entropy += cross_entropy;
    sums.objective += static_cast<double>(c.loss.ce_weight) * weight(0) * cross_entropy;
    sums.correct += z[label] >= *std::max_element(z.begin(), z.end()) ? 1 : 0;
    if (s.teacher_vocab == 0) continue;
    const auto t = logits_of_row(in[2], in[3], r, s.teacher_width, s.counted());
    sums.teacher_log_probs.push_back(log_softmax(t, 1)[label]);
    kernels::DivergenceForm form = c.loss.divergence;
    if (!c.row_alpha.empty()) form.alpha = c.row_alpha[row];
    const auto log_q = log_softmax(z, temperature);
    const double divergence = defined_divergence(form, log_softmax(t, temperature), log_q,
                                                 log_softmax(student_logits(fixed), temperature));
    sums.divergence += divergence;
    sums.objective += static_cast<double>(c.loss.kd_weight) * weight(1) * divergence;
  }
  return sums;
}

inline DefinedLoss defined_loss(const LossCase& c, const std::vector<std::vector<double>>& in) {
  return defined_loss(c, in, in);
}

/// Labels, and where wanted factors and alphas, that differ from row to row.
inline LossCase make_case(const LossSizes& sizes, const kernels::TokenLoss& loss,
                          bool row_factors = false) {
  LossCase c{.sizes = sizes, .loss = loss};
  for (std::int64_t r = 0; r < sizes.rows; ++r) {
    c.labels.push_back(static_cast<std::int32_t>((r * 101 + 3) % sizes.counted()));
    if (!row_factors) continue;
    c.row_weights.push_back(0.25f * static_cast<float>(r % 4));  // 0 among them
    c.row_weights.push_back(1.5f - 0.125f * static_cast<float>(r % 5));
    if (has_alpha(loss.divergence))
      c.row_alpha.push_back(0.05f + 0.9f * static_cast<float>(r % 7) / 7.0f);
  }
  return c;
}

}  // namespace fathom::test
