#include "methods/moc/usage.h"

#include <algorithm>
#include <cmath>

namespace fathom::methods::moc {

Usage::Usage(std::int64_t sites, std::int64_t layers)
    : sites_(sites),
      layers_(layers),
      counts_(static_cast<std::size_t>(sites * layers * layers), 0.0) {}

void Usage::add(std::int64_t site, std::int64_t layer, const std::vector<int>& experts) {
  for (const int expert : experts)
    counts_.at(static_cast<std::size_t>((site * layers_ + layer) * layers_ + expert)) += 1;
}

void Usage::clear() {
  std::fill(counts_.begin(), counts_.end(), 0.0);
}

UsageSummary UsageLog::add(const std::vector<double>& counts, std::int64_t experts) {
  const auto width = static_cast<std::size_t>(experts);
  std::vector<double> pooled(width, 0.0);
  std::vector<std::int64_t> favourites;
  for (std::size_t at = 0; at < counts.size(); at += width) {
    const auto begin = counts.begin() + static_cast<std::ptrdiff_t>(at);
    favourites.push_back(std::max_element(begin, begin + experts) - begin);
    for (std::size_t i = 0; i < width; ++i) pooled[i] += counts[at + i];
  }
  double total = 0;
  for (const double count : pooled) total += count;
  UsageSummary summary;
  for (const double count : pooled) {
    if (count == 0) {
      ++summary.unused;
      continue;
    }
    const double share = count / total;
    summary.entropy -= share * std::log(share);
    summary.largest_share = std::max(summary.largest_share, share);
  }
  if (experts > 1) summary.entropy /= std::log(static_cast<double>(experts));
  for (std::size_t i = 0; i < favourites_.size(); ++i)
    if (favourites[i] != favourites_[i]) ++summary.flips;
  favourites_ = std::move(favourites);
  return summary;
}

}  // namespace fathom::methods::moc
