#pragma once

#include <cmath>

#include "kernels/divergence_entry.h"
#include "kernels/loss.h"
#include "kernels/rows.h"

// The passes of kernels/loss.h over one row, for one rank's entries of the vocabulary. Sums of a
// row are those of all ranks once they have been reduced.

namespace fathom::kernels {

/// A chunk as the passes see it; copied into the kernels.
struct LossView {
  float* student;
  float* teacher;
  const std::int32_t* labels;
  const float *row_weights, *row_alpha;
  std::int64_t student_stride, teacher_stride, columns, first_id;
  float ce_weight, kd_weight, inverse_t;
  bool teacher_cross_entropy;
  DivergenceForm form;

  LossView(const TokenLoss& loss, const LogitChunk& chunk);

  FATHOM_HOST_DEVICE float ce(std::int64_t r) const {
    return row_weights == nullptr ? ce_weight : ce_weight * row_weights[2 * r];
  }
  FATHOM_HOST_DEVICE float kd(std::int64_t r) const {
    return row_weights == nullptr ? kd_weight : kd_weight * row_weights[2 * r + 1];
  }
  FATHOM_HOST_DEVICE float alpha(std::int64_t r) const {
    return row_alpha == nullptr ? form.alpha : row_alpha[r];
  }
};

struct RowMaxima {
  float student, teacher;
};
struct RowSums {
  float student, student_t, teacher_t, cross, label, teacher, teacher_label;
};
struct RowDivergence {
  float value, mean_slope;
};

template <typename R>
FATHOM_HOST_DEVICE RowMaxima row_maxima(const R& row, const LossView& view, std::int64_t r) {
  const float* z = view.student + r * view.student_stride;
  RowMaxima maxima{row.max(view.columns, [&](std::int64_t i) { return z[i]; }), 0.0f};
  if (view.teacher != nullptr) {
    const float* t = view.teacher + r * view.teacher_stride;
    maxima.teacher = row.max(view.columns, [&](std::int64_t i) { return t[i]; });
  }
  return maxima;
}

template <typename R>
FATHOM_HOST_DEVICE RowSums row_sums(const R& row, const LossView& view, std::int64_t r,
                                    const RowMaxima& max) {
  const float* z = view.student + r * view.student_stride;
  const std::int64_t n = view.columns, label = view.labels[r] - view.first_id;
  const bool has_label = label >= 0 && label < n;
  const float it = view.inverse_t;
  const auto student = [&] {
    return row.sum(n, [&](std::int64_t i) { return exp_f(z[i] - max.student); });
  };
  RowSums sums{};
  sums.label = has_label ? z[label] : 0.0f;
  if (view.teacher == nullptr) {
    sums.student = student();
    return sums;
  }
  const float* t = view.teacher + r * view.teacher_stride;
  // Before the sums, after which other threads may write to the logits.
  if (view.teacher_cross_entropy && has_label) sums.teacher_label = t[label];
  // One loop for both models: equal logits then give equal sums, to the bit. The cross term takes
  // differences of shifted logits, so that it stays small when both are large.
  const Triple both = row.sums(n, [&](std::int64_t i) {
    const float dt = t[i] - max.teacher, dz = z[i] - max.student;
    const float p = exp_f(dt * it);
    return Triple{exp_f(dz * it), p, p * ((dt - dz) * it)};
  });
  sums.student_t = both.a;
  sums.teacher_t = both.b;
  sums.cross = both.c;
  sums.student = it == 1.0f ? both.a : student();
  if (view.teacher_cross_entropy)
    sums.teacher =
        it == 1.0f ? both.b : row.sum(n, [&](std::int64_t i) { return exp_f(t[i] - max.teacher); });
  return sums;
}

/// True if softmax(z) is q, or not needed: a divergence of two stages then leaves slope and q
/// behind for the gradient, and otherwise, as z is needed for both, the sum that it can already
/// make.
FATHOM_HOST_DEVICE inline bool leaves_slopes(const LossView& view, std::int64_t r) {
  return view.inverse_t == 1.0f || view.ce(r) == 0.0f;
}

/// The sums of a divergence of two stages. With `gradient`, leaves behind in the student's and the
/// teacher's logits what row_finish needs, so that it computes no exponential again: g and q if
/// leaves_slopes(), else ce softmax(z) + s q g and s q, with s = kd / T.
template <typename R, typename Entry>
FATHOM_HOST_DEVICE RowDivergence row_divergence(const R& row, const LossView& view, std::int64_t r,
                                                const RowMaxima& max, const RowSums& sums,
                                                const Entry& entry, bool gradient) {
  float* z = view.student + r * view.student_stride;
  float* t = view.teacher + r * view.teacher_stride;
  const Normalisers norm{1.0f / sums.student_t, 1.0f / sums.teacher_t, view.inverse_t,
                         logf(sums.student_t) - logf(sums.teacher_t)};
  const auto at = [&](std::int64_t i) {
    return entry(norm, z[i] - max.student, t[i] - max.teacher);
  };
  Triple found;
  if (!gradient) {
    found = row.sums(view.columns, [&](std::int64_t i) {
      const DivergenceEntry e = at(i);
      return Triple{e.term, e.q * e.slope};
    });
  } else if (leaves_slopes(view, r)) {
    found = row.sums(view.columns, [&](std::int64_t i) {
      const DivergenceEntry e = at(i);
      z[i] = e.slope;
      t[i] = e.q;
      return Triple{e.term, e.q * e.slope};
    });
  } else {
    const float ce = view.ce(r) / sums.student, s = view.kd(r) * view.inverse_t;
    found = row.sums(view.columns, [&](std::int64_t i) {
      const DivergenceEntry e = at(i);
      z[i] = ce * exp_f(z[i] - max.student) + s * e.q * e.slope;
      t[i] = s * e.q;
      return Triple{e.term, e.q * e.slope};
    });
  }
  return {found.a, found.b};
}

template <typename R>
FATHOM_HOST_DEVICE void row_results(const R& row, const LossView& view, std::int64_t r,
                                    const RowMaxima& max, const RowSums& sums, float divergence,
                                    float* result) {
  row.each(1, [&](std::int64_t) {
    const float cross_entropy = logf(sums.student) + (max.student - sums.label);
    result[kCrossEntropy] = cross_entropy;
    result[kDivergence] = divergence;
    result[kObjective] = view.ce(r) * cross_entropy + view.kd(r) * divergence;
    result[kCorrect] = sums.label >= max.student ? 1.0f : 0.0f;
    result[kTeacherCrossEntropy] =
        view.teacher_cross_entropy ? logf(sums.teacher) + (max.teacher - sums.teacher_label) : 0.0f;
  });
}

template <typename R>
FATHOM_HOST_DEVICE void subtract_label(const R& row, const LossView& view, std::int64_t r) {
  const std::int64_t label = view.labels[r] - view.first_id;
  float* z = view.student + r * view.student_stride;
  row.sync();
  if (label >= 0 && label < view.columns)
    row.each(1, [&](std::int64_t) { z[label] -= view.ce(r); });
}

/// Results, and the gradient from the parts that row_divergence has left.
template <typename R>
FATHOM_HOST_DEVICE void row_finish(const R& row, const LossView& view, std::int64_t r,
                                   const RowMaxima& max, const RowSums& sums,
                                   const RowDivergence& divergence, float* result, bool gradient) {
  row_results(row, view, r, max, sums, divergence.value, result);
  if (!gradient) return;
  float* z = view.student + r * view.student_stride;
  const float* q = view.teacher + r * view.teacher_stride;
  const float mean = divergence.mean_slope;
  row.sync();
  if (leaves_slopes(view, r)) {
    const float ce = view.ce(r), s = view.kd(r) * view.inverse_t;
    row.each(view.columns, [&](std::int64_t i) { z[i] = q[i] * (s * (z[i] - mean) + ce); });
  } else {
    row.each(view.columns, [&](std::int64_t i) { z[i] -= mean * q[i]; });
  }
  subtract_label(row, view, r);
}

/// Results and gradient of cross-entropy alone, or with the forward KL.
template <typename R>
FATHOM_HOST_DEVICE void row_gradient(const R& row, const LossView& view, std::int64_t r,
                                     const RowMaxima& max, const RowSums& sums, float* result,
                                     bool gradient) {
  float* z = view.student + r * view.student_stride;
  const std::int64_t n = view.columns;
  const float it = view.inverse_t;
  const float forward_kl =
      view.teacher == nullptr
          ? 0.0f
          : sums.cross / sums.teacher_t - (logf(sums.teacher_t) - logf(sums.student_t));
  row_results(row, view, r, max, sums, forward_kl, result);
  if (!gradient) return;
  row.sync();
  const float ce = view.ce(r) / sums.student;
  if (view.teacher == nullptr) {
    row.each(n, [&](std::int64_t i) { z[i] = ce * exp_f(z[i] - max.student); });
  } else {
    const float* t = view.teacher + r * view.teacher_stride;
    // teacher (ratio q - p) with unnormalised q and p: exactly zero where the models agree, which
    // the difference of two products would not be once it is contracted into a fused multiply-add.
    const float teacher = view.kd(r) * it / sums.teacher_t, ratio = sums.teacher_t / sums.student_t;
    if (it == 1.0f) {
      row.each(n, [&](std::int64_t i) {
        const float q = exp_f(z[i] - max.student), p = exp_f(t[i] - max.teacher);
        z[i] = ce * q + teacher * (ratio * q - p);
      });
    } else {
      row.each(n, [&](std::int64_t i) {
        const float dz = z[i] - max.student;
        const float q = exp_f(dz * it), p = exp_f((t[i] - max.teacher) * it);
        z[i] = ce * exp_f(dz) + teacher * (ratio * q - p);
      });
    }
  }
  subtract_label(row, view, r);
}

}  // namespace fathom::kernels
