#include "diagnose/depth/recommend.h"

#include <algorithm>

#include "core/error.h"
#include "diagnose/number.h"

namespace fathom::diagnose::depth {
namespace {

std::string percent(double share) {
  return rounded(100 * share, 3) + " %";
}

// Why a layer is not worth a vote; empty if it is.
std::string objection(const LayerSums& layer, double tokens, const DepthRule& rule, bool routed) {
  if (layer.agrees < rule.agreement * tokens)
    return str("agrees with the last layer on ", percent(layer.agrees / tokens),
               " of the tokens, less than ", percent(rule.agreement));
  if (layer.adds < rule.gain * tokens)
    return str("puts right what no later layer does on ", percent(layer.adds / tokens),
               " of the tokens, less than ", percent(rule.gain));
  if (routed && layer.weight < rule.weight * tokens)
    return str("has a mean router weight of ", percent(layer.weight / tokens), ", less than ",
               percent(rule.weight));
  return "";
}

}  // namespace

Recommendation recommend(const DepthSums& sums, const DepthRule& rule, bool routed) {
  const double tokens = std::max(1.0, sums.tokens);
  Recommendation found;
  for (std::size_t j = sums.k() - 1; j-- > 0;) {
    const std::string why = objection(sums.layers[j], tokens, rule, routed);
    if (!why.empty()) {
      found.reason = str("layer ", sums.first + static_cast<std::int64_t>(j), " ", why);
      return found;
    }
    ++found.k;
  }
  found.reason = "every layer that was looked at is worth a vote";
  return found;
}

}  // namespace fathom::diagnose::depth
