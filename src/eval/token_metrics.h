#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "core/error.h"

namespace fathom::eval {

/// Sums over scored tokens. Sums of several batches or ranks add up to those of their union, so the
/// result does not depend on how the tokens were split.
struct TokenMetrics {
  double sum_loss = 0.0;  ///< natural-log cross-entropy
  std::int64_t tokens = 0;
  std::int64_t correct = 0;  ///< tokens whose label was the most likely one

  TokenMetrics& operator+=(const TokenMetrics& other) {
    sum_loss += other.sum_loss;
    tokens += other.tokens;
    correct += other.correct;
    return *this;
  }

  /// Mean over the tokens. These three throw Error(data) when there are none.
  double loss() const { return sum_loss / count(); }
  double perplexity() const { return std::exp(loss()); }
  double accuracy() const { return static_cast<double>(correct) / count(); }

  /// The three sums as numbers that one all-reduce can add; counts are exact up to 2^53.
  std::array<double, 3> pack() const {
    return {sum_loss, static_cast<double>(tokens), static_cast<double>(correct)};
  }
  static TokenMetrics unpack(const std::array<double, 3>& sums) {
    return {sums[0], static_cast<std::int64_t>(sums[1]), static_cast<std::int64_t>(sums[2])};
  }

 private:
  double count() const {
    require(tokens > 0, ErrorKind::data, "no labelled token was scored: the data has none");
    return static_cast<double>(tokens);
  }
};

}  // namespace fathom::eval
