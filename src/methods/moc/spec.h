#pragma once

#include <cstdint>

#include "methods/routing/rule.h"

namespace fathom::methods::moc {

enum class Sites { attention, mlp, both };

/// Whether sites route by one gate or by one each.
enum class Gate { shared, separate };

using routing::Aggregate;
using routing::Scope;
using routing::SoftmaxOrder;
using routing::Tokens;

/// What a gate scores: the residual stream as it is, or divided by its root mean square, so that no
/// token outweighs the others in a mean.
enum class GateInput { raw, rmsnorm };
inline constexpr float kGateNormEpsilon = 1e-6f;  ///< added to the mean square

/// Over which tokens experts shall be in equal use.
enum class BalanceScope {
  microbatch,  ///< those of each micro-batch
  global,      ///< those of the step, of which each replica has one micro-batch
};

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
  GateInput gate_input = GateInput::raw;
  double balance = 0.01;  ///< weight of the balance term; 0 leaves it out
  BalanceScope balance_scope = BalanceScope::microbatch;
  bool gate_decay = false;  ///< optim.weight_decay applies to gates as well

  bool operator==(const Spec&) const = default;

  bool has(bool attention) const {
    return sites == Sites::both || (sites == Sites::attention) == attention;
  }
  routing::Rule rule() const { return {top_k, softmax, aggregate}; }
  /// Whether replicas exchange something about each micro-batch.
  bool meets() const {
    return scope == Scope::global || (balance > 0 && balance_scope == BalanceScope::global);
  }
  /// Sites of a layer that have controls, and gates of the model.
  int site_count() const { return sites == Sites::both ? 2 : 1; }
  int gate_count() const { return gate == Gate::shared ? 1 : site_count(); }
};

}  // namespace fathom::methods::moc
