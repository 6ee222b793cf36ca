#pragma once

/// How hard each answer of a pair is learnt from: the curriculum of DistiLLM-2 (arXiv 2503.07067,
/// section 3.3). Pure functions and plain numbers.
namespace fathom::methods::distill {

/// How much likelier an answer is to the model that wrote it than to the other one: the difference
/// of exp(mean log-probability of its tokens).
double answer_gap(double mean_log_prob_of_writer, double mean_log_prob_of_other);

/// The mean gaps that later ones are compared with: of the teacher's answers, and of the student's.
struct ReferenceGaps {
  double chosen = 0, rejected = 0;
  bool operator==(const ReferenceGaps&) const = default;
};

/// The smallest skew that the curriculum chooses.
inline constexpr double kLeastAlpha = 0.01;

/// The skew of one answer's divergence,
///   alpha = clip(1 - (1 - alpha0) reference / (gap + 1e-5), 0.01, alpha0):
/// alpha0 where the models are at least as far apart as the reference says, and less, which is
/// harder, as they come closer. An answer that its writer finds no likelier than the other model
/// does (gap <= 0) says nothing about that and keeps alpha0; the formula alone would jump there
/// from one end to the other.
double curriculum_alpha(double alpha0, double reference, double gap);

}  // namespace fathom::methods::distill
