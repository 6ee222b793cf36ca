#pragma once

#include <string>

namespace fathom::kernels {

/// How far the student's distribution q is from the teacher's p, per token, in nats. All are true
/// values (0 where the models agree), not cross-entropies.
enum class Divergence {
  forward_kl,       ///< KL(p || q)
  reverse_kl,       ///< KL(q || p)
  js,               ///< beta KL(p || m) + (1 - beta) KL(q || m), m = beta p + (1 - beta) q
  tvd,              ///< total variation, 1/2 sum |p - q|
  skew_kl,          ///< KL(p || alpha p + (1 - alpha) q)
  skew_reverse_kl,  ///< KL(q || (1 - alpha) p + alpha q)
};

/// A divergence with its parameters. js is GKD's generalised divergence (arXiv 2306.13649, eq. 1)
/// and takes that paper's limits: beta 0 is KL(p || q) and beta 1 is KL(q || p). The skewed ones
/// are DistiLLM's (arXiv 2402.03898, section 3.1).
struct DivergenceForm {
  Divergence kind = Divergence::forward_kl;
  float beta = 0.5f;            ///< of js, in [0, 1]
  float alpha = 0.1f;           ///< of the skewed ones, in (0, 1)
  bool detach_mixture = false;  ///< skew_reverse_kl: no gradient through the mixture's q, as
                                ///< DistiLLM-2 has it (arXiv 2503.07067)

  /// The same divergence with GKD's limits named for what they are.
  DivergenceForm resolved() const;
};

/// "forward_kl" and so on, as recipes and metrics spell it.
std::string to_string(Divergence kind);

}  // namespace fathom::kernels
