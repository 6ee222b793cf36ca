#pragma once

#include "diagnose/moc/records.h"
#include "diagnose/report.h"
#include "methods/moc/usage.h"

namespace fathom::diagnose::moc {

/// Which experts each site takes on a text, and whether another checkpoint takes others.
class RoutingUse {
 public:
  /// The model has mixture of control.
  explicit RoutingUse(const Subject& subject);

  /// Counts the decisions of a passage; `other` are another checkpoint's on the same text, or null.
  void add(const Passage& passage, const Passage* other);

  /// Tables "routing" (a row for each site: entropy of its choices, 0 where it always takes the
  /// same expert and 1 where it takes all as often; its favourite; how often that is its own
  /// control; flips, the share of groups for which the other checkpoint takes another set) and
  /// "usage" (site x expert), pictures of the second, and facts over all sites: entropy, the
  /// largest share, experts that nobody takes, and the balance L sum_i f_i P_i of tokens by gate.
  void report(Report& report) const;

 private:
  struct Site {
    double groups = 0, self = 0, flips = 0;
    std::vector<double> taken, weights, picks, probs;  ///< [L], sums over groups or tokens
  };
  void report_balance(Report& report) const;
  void report_picture(Report& report, model::BlockSite site) const;
  const methods::moc::Spec spec_;
  std::int64_t layers_;
  std::map<std::size_t, Site> sites_;
  bool compares_ = false;
};

}  // namespace fathom::diagnose::moc
