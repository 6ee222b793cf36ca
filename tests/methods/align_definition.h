#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "methods/mta/align.h"
#include "tests/autograd/gradient_check.h"

// The alignment of MTA written from its definition, in double: importance, span means, and both
// terms, one sample after the other.

namespace fathom::test {

using methods::mta::PairNormalisation;
using methods::mta::RowSpan;

struct AlignShape {
  std::int64_t student_width = 0, teacher_width = 0;
  std::vector<std::int32_t> starts{0};
  std::vector<std::vector<RowSpan>> spans;  ///< of each sample

  std::int64_t rows() const { return starts.back(); }
};

inline double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

inline double defined_cosine(const double* a, const double* b, std::int64_t n) {
  const double least = 1e-5;
  return dot(a, b, n) /
         (std::max(std::sqrt(dot(a, a, n)), least) * std::max(std::sqrt(dot(b, b, n)), least));
}

/// Importance of the tokens of one sequence [length, width].
inline Doubles defined_importance(const double* states, std::int64_t length, std::int64_t width) {
  if (length == 1) return {1.0};
  Doubles x(states, states + length * width);
  for (std::int64_t t = 0; t < length; ++t) {
    double mean = 0, square = 0;
    for (std::int64_t c = 0; c < width; ++c) mean += x[t * width + c] / static_cast<double>(width);
    for (std::int64_t c = 0; c < width; ++c) square += std::pow(x[t * width + c] - mean, 2);
    const double deviation =
        std::sqrt(square / static_cast<double>(std::max<std::int64_t>(1, width - 1))) + 1e-5;
    for (std::int64_t c = 0; c < width; ++c) x[t * width + c] /= deviation;
  }
  Doubles importance(static_cast<std::size_t>(length), 0.0);
  for (std::int64_t i = 0; i < length; ++i) {
    Doubles scores(static_cast<std::size_t>(length));
    double largest = -INFINITY, total = 0;
    for (std::int64_t j = 0; j < length; ++j) {
      scores[j] = dot(&x[i * width], &x[j * width], width) / std::sqrt(static_cast<double>(width));
      if (j != i) largest = std::max(largest, scores[j]);
    }
    for (std::int64_t j = 0; j < length; ++j)
      total += scores[j] = j == i ? 0 : std::exp(scores[j] - largest);
    for (std::int64_t j = 0; j < length; ++j)
      importance[j] += scores[j] / total / static_cast<double>(length);
  }
  return importance;
}

/// Token weights [rows], normalised over the incidences of each sample.
inline Doubles defined_weights(const AlignShape& shape, const Doubles& states, std::int64_t width) {
  Doubles weights;
  for (std::size_t s = 0; s < shape.spans.size(); ++s) {
    const std::int32_t first = shape.starts[s];
    Doubles own = defined_importance(&states[first * width], shape.starts[s + 1] - first, width);
    double total = 0;
    for (const RowSpan span : shape.spans[s])
      for (std::int32_t t = span.begin; t < span.end; ++t) total += own[t - first];
    for (double& w : own) w = total > 0 ? w / total : 0;
    weights.insert(weights.end(), own.begin(), own.end());
  }
  return weights;
}

inline double mass_of(const Doubles& weights, RowSpan span) {
  double mass = 0;
  for (std::int32_t t = span.begin; t < span.end; ++t) mass += weights[t];
  return mass;
}

inline Doubles defined_mean(const Doubles& states, const Doubles& weights, RowSpan span,
                            std::int64_t width) {
  Doubles mean(static_cast<std::size_t>(width), 0.0);
  const double mass = mass_of(weights, span);
  for (std::int32_t t = span.begin; t < span.end; ++t)
    for (std::int64_t c = 0; c < width; ++c)
      mean[c] += (mass > 1e-30 ? weights[t] / mass : 1.0 / (span.end - span.begin)) *
                 states[t * width + c];
  return mean;
}

/// Of one sample: the sum over ordered pairs of spans of w_ij (difference of cosines)^2, and of
/// w_ij.
struct DefinedPairs {
  double squares = 0, mass = 0;
};

inline DefinedPairs defined_pairs(const AlignShape& shape, std::size_t sample,
                                  const Doubles& student, const Doubles& teacher,
                                  const Doubles& student_weights, const Doubles& teacher_weights) {
  DefinedPairs pairs;
  const auto& spans = shape.spans[sample];
  for (std::size_t i = 0; i < spans.size(); ++i)
    for (std::size_t j = 0; j < spans.size(); ++j) {
      if (i == j) continue;
      const auto cosine = [&](const Doubles& states, const Doubles& weights, std::int64_t width) {
        const Doubles a = defined_mean(states, weights, spans[i], width);
        const Doubles b = defined_mean(states, weights, spans[j], width);
        return defined_cosine(a.data(), b.data(), width);
      };
      const double weight = mass_of(teacher_weights, spans[i]) * mass_of(teacher_weights, spans[j]);
      const double gap = cosine(student, student_weights, shape.student_width) -
                         cosine(teacher, teacher_weights, shape.teacher_width);
      pairs.squares += weight * gap * gap;
      pairs.mass += weight;
    }
  return pairs;
}

/// The structural term summed over samples, times their number under PairNormalisation::batch.
inline double defined_dsa(const AlignShape& shape, PairNormalisation normalise,
                          const Doubles& student, const Doubles& teacher,
                          const Doubles& student_weights, const Doubles& teacher_weights) {
  double sum = 0, squares = 0, mass = 0, samples = 0;
  for (std::size_t s = 0; s < shape.spans.size(); ++s) {
    if (shape.spans[s].size() < 2) continue;
    const DefinedPairs pairs =
        defined_pairs(shape, s, student, teacher, student_weights, teacher_weights);
    sum += normalise == PairNormalisation::none ? pairs.squares
                                                : pairs.squares / std::max(pairs.mass, 1e-5);
    squares += pairs.squares;
    mass += pairs.mass;
    ++samples;
  }
  return normalise == PairNormalisation::batch ? samples * squares / std::max(mass, 1e-5) : sum;
}

/// The hidden term summed over samples.
inline double defined_hid(const AlignShape& shape, const Doubles& student, const Doubles& teacher,
                          const Doubles& projector, const Doubles& bias,
                          const Doubles& teacher_weights) {
  double sum = 0;
  for (const auto& spans : shape.spans)
    for (const RowSpan span : spans)
      for (std::int32_t t = span.begin; t < span.end; ++t) {
        Doubles projected = bias;
        for (std::int64_t c = 0; c < shape.teacher_width; ++c)
          projected[c] += dot(&projector[c * shape.student_width],
                              &student[t * shape.student_width], shape.student_width);
        sum += teacher_weights[t] *
               (1 - defined_cosine(projected.data(), &teacher[t * shape.teacher_width],
                                   shape.teacher_width));
      }
  return sum;
}

}  // namespace fathom::test
