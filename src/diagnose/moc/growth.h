#pragma once

#include "diagnose/moc/controls.h"
#include "diagnose/moc/records.h"
#include "diagnose/report.h"

namespace fathom::diagnose::moc {

/// The largest alpha G_t + (1 - alpha) sum_k pi_k G_k of a passage's groups at a site; 0 without
/// controls.
double control_bound(const Controls& controls, const Passage& passage, std::size_t site);

/// How much each site lets states grow, beside what Proposition 4.2 allows it. With F the largest
/// |f(x)| / |x| of the text's tokens (an estimate from below of f's constant), G_k the operator
/// norm of control k and pi_k the weights of the chosen ones, a site's growth factor is
///     rho' = 1 + F + alpha G_t + (1 - alpha) sum_k pi_k G_k,
/// beside rho = 1 + F + G_t if the same controls were Parallel Control with alpha = 1. rho' <= rho
/// where sum_k pi_k G_k <= G_t; the proposition asks for that on average.
class Growth {
 public:
  Growth(const Controls& controls, std::size_t sites) : controls_(controls), sites_(sites) {}

  void add(const Passage& passage, const std::vector<SiteRecord>& records);

  /// Table "growth", pictures, and the checks "operator_norms" (mixture of control only),
  /// "growth" (every token by its own |f(x)| / |x|) and "control" (|c(x)| of every token against
  /// its part of that bound).
  void report(Report& report) const;

 private:
  struct Worst {
    double measured = 0, bound = 0, excess = -1;  ///< excess: measured / allowed - 1
    std::size_t site = 0;
    void see(double measured_now, double bound_now, double rounding, std::size_t site_now);
  };
  struct Site {
    std::vector<double> growth;               ///< |x'| / |x| of each token
    double branch = 0, control = 0;           ///< largest |f(x)| / |x| and |c(x)| / |x|
    double routed = 0, groups = 0, most = 0;  ///< sum over groups of sum_k pi_k G_k; the largest
  };
  void add_token(const SiteRecord& record, std::int64_t token, double bound, double rounding);
  void report_operator_norms(Report& report) const;
  void report_routed_norms(Report& report) const;
  void report_picture(Report& report) const;
  double factor(std::size_t site, bool parallel) const;
  Check check(const char* name, const char* statement, const Worst& worst) const;

  const Controls& controls_;
  std::vector<Site> sites_;
  Worst growth_, control_;
};

}  // namespace fathom::diagnose::moc
