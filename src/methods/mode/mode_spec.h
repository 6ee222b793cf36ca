#pragma once

#include <cstdint>
#include <string>

namespace fathom::methods::mode {

/// How the late layers are weighed.
enum class Router {
  learnt,   ///< softmax(W H_{n-k} + b) of each token
  uniform,  ///< 1 / k
};

/// What the router reads of the state before the late layers.
enum class RouterInput {
  raw,  ///< the residual stream itself
  rms,  ///< divided by its root mean square: a few tokens of some models have huge states
};

/// What a learnt router says before it has learnt anything, of every token.
enum class RouterInit {
  last,     ///< 0.9 for the last layer, which is the model, and equal parts of the rest
  uniform,  ///< 1 / k
};

/// What stands between a late layer and the head.
enum class Norms {
  own,     ///< a trainable norm for each layer, the last one's being the model's final norm
  shared,  ///< the model's final norm, trainable, behind each of them: the logit lens
  none,    ///< nothing but the model's final norm behind the last layer
};

/// Mixture of depths experts: the last k layers vote on the next token.
struct ModeSpec {
  int k = 3;      ///< late layers
  int top_k = 0;  ///< largest router scores that are kept for a token; 0: all
  Router router = Router::learnt;
  RouterInput router_input = RouterInput::raw;
  Norms norms = Norms::own;

  /// Whether there is anything to learn about the weights.
  bool routed() const { return router == Router::learnt && k > 1; }
  int kept() const { return top_k > 0 ? top_k : k; }
  bool operator==(const ModeSpec&) const = default;
};

/// The spec as checkpoints keep it, JSON.
std::string to_json(const ModeSpec& spec);
/// Throws Error(io) naming `origin` for anything else.
ModeSpec parse_mode(const std::string& text, const std::string& origin);

}  // namespace fathom::methods::mode
