#pragma once

#include "kernels/divergence.h"
#include "kernels/math.h"

// The arithmetic of the divergences for one entry of the vocabulary. Each is a sum of terms over
// the entries, and its gradient by the student's logit z_j is q_j (g_j - sum_i q_i g_i) / T, where
// g_i = d(term)/dq_i; a constant added to every g_i changes nothing, and is left out.
//
// All works on d = log q - log p, so that nothing is lost where p or q underflow: such an entry's
// term is exactly 0. Where the models agree d is exactly 0, and so are terms and slopes.

namespace fathom::kernels {

/// What turns a row's shifted logits dz = z - max z and dt into distributions.
struct Normalisers {
  float q, p;       ///< 1 / sum exp(dz / T), 1 / sum exp(dt / T)
  float inverse_t;  ///< 1 / T
  float shift;      ///< log(sum exp(dz / T) / sum exp(dt / T))

  FATHOM_HOST_DEVICE float student(float dz) const { return exp_f(dz * inverse_t) * q; }
  FATHOM_HOST_DEVICE float teacher(float dt) const { return exp_f(dt * inverse_t) * p; }
  /// d. The difference comes first: of two products, one would be contracted into a fused
  /// multiply-add, and equal logits would not give 0.
  FATHOM_HOST_DEVICE float log_ratio(float dz, float dt) const {
    return (dz - dt) * inverse_t - shift;
  }
};

struct DivergenceEntry {
  float q, term, slope;
};

struct ReverseKlEntry {
  FATHOM_HOST_DEVICE DivergenceEntry operator()(const Normalisers& n, float dz, float dt) const {
    const float q = n.student(dz), d = n.log_ratio(dz, dt);
    return {q, q * d, d};
  }
};

struct TvdEntry {
  FATHOM_HOST_DEVICE DivergenceEntry operator()(const Normalisers& n, float dz, float dt) const {
    const float q = n.student(dz), p = n.teacher(dt);
    const float slope = q > p ? 0.5f : q < p ? -0.5f : 0.0f;
    return {q, slope * (q - p), slope};
  }
};

/// With the mixture m = a p + b q, a + b = 1, a and b in (0, 1), every remaining divergence is
///   sum of (of_p p log(p / m) + of_q q log(q / m)),  g = by_log log(q / m) + by_gap (p - q) / m.
struct MixtureEntry {
  float a, b, of_p, of_q, by_log, by_gap;

  /// The coefficients of js, skew_kl or skew_reverse_kl.
  FATHOM_HOST_DEVICE MixtureEntry(const DivergenceForm& form, float alpha) {
    const float beta = form.beta;
    switch (form.kind) {
      case Divergence::skew_kl:
        a = alpha, b = 1 - alpha, of_p = 1, of_q = 0, by_log = 0, by_gap = -b * b;
        break;
      case Divergence::skew_reverse_kl:
        a = 1 - alpha, b = alpha, of_p = 0, of_q = 1, by_log = 1;
        by_gap = form.detach_mixture ? 0 : a * b;
        break;
      default:
        a = beta, b = 1 - beta, of_p = beta, of_q = 1 - beta, by_log = 1 - beta, by_gap = 0;
    }
  }

  FATHOM_HOST_DEVICE DivergenceEntry operator()(const Normalisers& n, float dz, float dt) const {
    const float d = n.log_ratio(dz, dt);
    const bool q_larger = d >= 0;
    // The larger of p and q, the ratio of the smaller to it, and m in units of the larger.
    const float larger = exp_f((q_larger ? dz : dt) * n.inverse_t) * (q_larger ? n.q : n.p);
    const float ratio = exp_f(q_larger ? -d : d);
    const float m = (q_larger ? b : a) + (q_larger ? a : b) * ratio;
    const float q = q_larger ? larger : larger * ratio;
    const float p = q_larger ? larger * ratio : larger;
    const float log_m = log_f(m);
    const float log_q = (q_larger ? 0 : d) - log_m, log_p = (q_larger ? -d : 0) - log_m;
    const float gap = (q_larger ? ratio - 1 : 1 - ratio) / m;
    return {q, of_p * p * log_p + of_q * q * log_q, by_log * log_q + by_gap * gap};
  }
};

}  // namespace fathom::kernels
