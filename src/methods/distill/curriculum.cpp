#include "methods/distill/curriculum.h"

#include <algorithm>
#include <cmath>

namespace fathom::methods::distill {

double answer_gap(double mean_log_prob_of_writer, double mean_log_prob_of_other) {
  return std::exp(mean_log_prob_of_writer) - std::exp(mean_log_prob_of_other);
}

double curriculum_alpha(double alpha0, double reference, double gap) {
  constexpr double kLeastGap = 1e-5;
  if (gap <= 0) return alpha0;
  return std::clamp(1 - (1 - alpha0) * reference / (gap + kLeastGap), kLeastAlpha, alpha0);
}

}  // namespace fathom::methods::distill
