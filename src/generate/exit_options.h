#pragma once

#include <cstdint>
#include <optional>

#include "methods/mode/mode_spec.h"

namespace fathom::generate {

/// Which late layers decide on a token, by the router's weights G of that token.
enum class ExitPolicy {
  dense,      ///< all, as in training; every layer runs
  topk,       ///< the `topk` of largest weight
  threshold,  ///< from the first one on until their weights sum to `threshold`
};

/// What happens to the keys and values of layers above the deepest one that decides on a token,
/// which later tokens look at.
enum class ExitCache {
  deferred,  ///< made as soon as one that goes deeper needs them: those of running every layer
  copy,      ///< projected at once from the state at which the token left: approximate
  off,       ///< every layer runs: nothing is saved
};

/// How decoding leaves the late layers early.
struct ExitOptions {
  ExitPolicy policy = ExitPolicy::dense;
  int topk = 0;          ///< with ExitPolicy::topk, 1 to the layers that vote
  double threshold = 0;  ///< with ExitPolicy::threshold, above 0 to 1; 1 keeps all
  ExitCache cache = ExitCache::deferred;
  /// With ExitCache::deferred, the tokens of a sequence that go through the layers they miss
  /// together, at the latest; 0: however many there are.
  std::int64_t flush = 8;

  bool early() const { return policy != ExitPolicy::dense; }
};

/// Throws Error(config) naming the option that is out of range or does not fit the late layers that
/// vote; null for a model whose last layer speaks alone.
void check(const ExitOptions& options, const methods::mode::ModeSpec* vote);

}  // namespace fathom::generate
