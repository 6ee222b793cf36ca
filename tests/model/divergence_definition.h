#pragma once

// The divergences by their definitions, in double, from log-probabilities.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/divergence.h"

namespace fathom::test {

/// log(a e^x + b e^y) for a + b = 1; a weight of 0 takes its part out.
inline double log_mixture(double a, double x, double b, double y) {
  if (a == 0) return y;
  if (b == 0) return x;
  const double u = std::log(a) + x, v = std::log(b) + y, most = std::max(u, v);
  return most + std::log(std::exp(u - most) + std::exp(v - most));
}

/// D of q from p, log-probabilities given. `log_fixed` is the q that a gradient does not go
/// through: inside the mixture of a detached skew_reverse_kl, and in the signs of tvd's terms,
/// whose kinks a finite difference would otherwise cross. Equal to log_q where the value alone is
/// wanted.
inline double defined_divergence(const kernels::DivergenceForm& form,
                                 const std::vector<double>& log_p, const std::vector<double>& log_q,
                                 const std::vector<double>& log_fixed) {
  using kernels::Divergence;
  const double alpha = static_cast<double>(form.alpha), beta = static_cast<double>(form.beta);
  double total = 0;
  for (std::size_t i = 0; i < log_p.size(); ++i) {
    const double x = log_p[i], y = log_q[i], p = std::exp(x), q = std::exp(y);
    switch (form.kind) {
      case Divergence::forward_kl:
        total += p * (x - y);
        break;
      case Divergence::reverse_kl:
        total += q * (y - x);
        break;
      case Divergence::js: {
        if (beta == 0) {
          total += p * (x - y);
        } else if (beta == 1) {
          total += q * (y - x);
        } else {
          const double m = log_mixture(beta, x, 1 - beta, y);
          total += beta * p * (x - m) + (1 - beta) * q * (y - m);
        }
        break;
      }
      case Divergence::tvd:
        total += (p > std::exp(log_fixed[i]) ? p - q : q - p) / 2;
        break;
      case Divergence::skew_kl:
        total += p * (x - log_mixture(alpha, x, 1 - alpha, y));
        break;
      case Divergence::skew_reverse_kl:
        total += q * (y - log_mixture(1 - alpha, x, alpha, form.detach_mixture ? log_fixed[i] : y));
        break;
    }
  }
  return total;
}

/// Every divergence with parameters of both sorts.
inline std::vector<kernels::DivergenceForm> all_divergences() {
  using kernels::Divergence;
  return {{.kind = Divergence::forward_kl},
          {.kind = Divergence::reverse_kl},
          {.kind = Divergence::tvd},
          {.kind = Divergence::js, .beta = 0},
          {.kind = Divergence::js, .beta = 0.25f},
          {.kind = Divergence::js, .beta = 0.5f},
          {.kind = Divergence::js, .beta = 0.9f},
          {.kind = Divergence::js, .beta = 1},
          {.kind = Divergence::skew_kl, .alpha = 0.1f},
          {.kind = Divergence::skew_kl, .alpha = 0.75f},
          {.kind = Divergence::skew_reverse_kl, .alpha = 0.1f},
          {.kind = Divergence::skew_reverse_kl, .alpha = 0.75f},
          {.kind = Divergence::skew_reverse_kl, .alpha = 0.1f, .detach_mixture = true}};
}

inline bool has_alpha(const kernels::DivergenceForm& form) {
  return form.kind == kernels::Divergence::skew_kl ||
         form.kind == kernels::Divergence::skew_reverse_kl;
}

inline std::string name_of(const kernels::DivergenceForm& form) {
  return to_string(form.kind) + " beta " + std::to_string(form.beta) + " alpha " +
         std::to_string(form.alpha) + (form.detach_mixture ? " detached" : "");
}

}  // namespace fathom::test
