#pragma once

#include <cstdint>

namespace fathom::methods::moc {

enum class Sites { attention, mlp, both };

/// Whether sites route by one gate or by one each.
enum class Gate { shared, separate };

/// The weights of the K experts of a group, from its scores.
enum class SoftmaxOrder {
  topk_softmax,  ///< over the kept scores; with K = 1 the weight is 1 and has no gradient
  softmax_topk,  ///< over all scores, the kept ones not normalised again
};

/// How a group chooses from its tokens' scores.
enum class Aggregate {
  mean,  ///< the K largest mean scores
  mode,  ///< the K experts that most tokens have among their K best; then the larger softmax sum
};

/// What shares a decision.
enum class Scope { sequence, microbatch };

/// Which tokens of a group decide and are balanced.
enum class Tokens { all, prompt };

/// Mixture of control: at a site of layer t, with x the residual stream that enters it,
/// x + f(x) + alpha B_t A_t x + (1 - alpha) sum over the K chosen layers k of pi_k B_k A_k x.
struct Spec {
  bool enabled = false;
  int rank = 32;
  double alpha = 0.95;
  int top_k = 1;
  Sites sites = Sites::both;
  Gate gate = Gate::shared;
  SoftmaxOrder softmax = SoftmaxOrder::topk_softmax;
  Aggregate aggregate = Aggregate::mean;
  Scope scope = Scope::microbatch;     ///< in training
  Scope eval_scope = Scope::sequence;  ///< in evaluation; decoding always decides by sequence
  Tokens tokens = Tokens::all;
  double balance = 0.01;  ///< weight of the balance term; 0 leaves it out

  bool operator==(const Spec&) const = default;

  bool has(bool attention) const {
    return sites == Sites::both || (sites == Sites::attention) == attention;
  }
  /// Sites of a layer that have controls, and gates of the model.
  int site_count() const { return sites == Sites::both ? 2 : 1; }
  int gate_count() const { return gate == Gate::shared ? 1 : site_count(); }
};

}  // namespace fathom::methods::moc
