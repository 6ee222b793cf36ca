#pragma once

// How tokens choose among experts; shared by methods whose experts are layers.

namespace fathom::methods::routing {

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
enum class Scope {
  sequence,
  microbatch,
  global,  ///< all micro-batches of a step, one on each replica
};

/// Which tokens of a group decide and are balanced.
enum class Tokens { all, prompt };

struct Rule {
  int top_k = 1;
  SoftmaxOrder softmax = SoftmaxOrder::topk_softmax;
  Aggregate aggregate = Aggregate::mean;
};

}  // namespace fathom::methods::routing
