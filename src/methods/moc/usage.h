#pragma once

#include <cstdint>
#include <vector>

namespace fathom::methods::moc {

/// How often each expert was chosen at each site of each layer, by groups of training passes.
class Usage {
 public:
  Usage() = default;
  Usage(std::int64_t sites, std::int64_t layers);

  void add(std::int64_t site, std::int64_t layer, const std::vector<int>& experts);
  void clear();

  /// Counts [sites, layers, experts], as many experts as layers; doubles, to be summed over ranks.
  const std::vector<double>& counts() const { return counts_; }
  std::int64_t sites() const { return sites_; }
  std::int64_t layers() const { return layers_; }

 private:
  std::int64_t sites_ = 0, layers_ = 0;
  std::vector<double> counts_;
};

/// What a step's choices over all ranks say, and how they differ from the step before.
struct UsageSummary {
  double entropy = 0;        ///< of all choices, 1 where every expert is chosen as often
  double largest_share = 0;  ///< of one expert
  std::int64_t unused = 0;   ///< experts that nobody chose
  std::int64_t flips = 0;    ///< sites whose most chosen expert is another one than before
};

/// Summaries of one step after the other.
class UsageLog {
 public:
  /// `counts` as Usage::counts(), summed over all ranks.
  UsageSummary add(const std::vector<double>& counts, std::int64_t experts);

 private:
  std::vector<std::int64_t> favourites_;  // of the last step, by site and layer
};

}  // namespace fathom::methods::moc
