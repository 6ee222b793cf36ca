#pragma once

#include "diagnose/moc/controls.h"
#include "diagnose/moc/records.h"
#include "diagnose/report.h"

namespace fathom::diagnose::moc {

/// How well the controls stand in for another run of the same model (LoRA, full tuning, other
/// controls). That run's target map at a site is D(x): its site at the state x, less x + f(x) here.
/// Proposition 4.4 splits the distance of the mixture from D into that of the site's own control
/// and that of the routed sum, in the Frobenius norm over all tokens of the text:
///     |c - D| <= alpha |g - D| + (1 - alpha) |sum_k pi_k g_k - D|.
class TargetErrors {
 public:
  TargetErrors(const Controls& controls, std::size_t sites) : controls_(controls), sites_(sites) {}

  /// `records` with their parts; `answers` of the other run to them.
  void add(const std::vector<SiteRecord>& records, const std::vector<std::vector<float>>& answers);

  /// Table "targets", root mean squares over tokens, and the check "target_error".
  void report(Report& report) const;

 private:
  struct Sums {  ///< of squares
    double tokens = 0, target = 0, own = 0, routed = 0, mixed = 0, out = 0;
    bool controlled = false;
  };
  void add_site(const SiteRecord& record, const std::vector<float>& answer, Sums& sums) const;
  const Controls& controls_;
  std::vector<Sums> sites_;
};

}  // namespace fathom::diagnose::moc
