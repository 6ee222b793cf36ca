#include "diagnose/moc/targets.h"

#include <cmath>
#include <limits>

#include "diagnose/moc/sites.h"

namespace fathom::diagnose::moc {

void TargetErrors::add(const std::vector<SiteRecord>& records,
                       const std::vector<std::vector<float>>& answers) {
  for (std::size_t i = 0; i < records.size(); ++i)
    if (records[i].controlled) add_site(records[i], answers.at(i), sites_.at(i));
}

void TargetErrors::add_site(const SiteRecord& record, const std::vector<float>& answer,
                            Sums& sums) const {
  const auto square = [](double value) { return value * value; };
  for (std::size_t i = 0; i < record.x.size(); ++i) {
    const double sum = record.sum[i], out = record.out[i], target = answer[i] - sum;
    sums.target += square(target);
    sums.own += square(record.own[i] - target);
    if (!record.routed.empty()) sums.routed += square(record.routed[i] - target);
    sums.mixed += square(out - sum - target);
    sums.out += square(out);
  }
  sums.tokens += static_cast<double>(record.x.size()) / static_cast<double>(controls_.hidden);
  sums.controlled = true;
}

void TargetErrors::report(Report& report) const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  Table table{"targets",
              {"layer", "site", "target", "local_error", "routed_error", "error", "error_bound"}};
  Check check{"target_error",
              "every site: |c - D| <= alpha |g - D| + (1 - alpha) |sum pi_k g_k - D| "
              "(Proposition 4.4)",
              0,
              0,
              true,
              ""};
  double worst = -1;
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    const Sums& sums = sites_[i];
    if (!sums.controlled) continue;
    const auto rms = [&](double squares) { return std::sqrt(squares / sums.tokens); };
    const bool routes = controls_.moc.has_value();
    const double own = rms(sums.own), routed = routes ? rms(sums.routed) : kNone,
                 mixed = rms(sums.mixed);
    const double bound = routes ? controls_.alpha * own + (1 - controls_.alpha) * routed : own;
    // The model adds controls to a state and rounds to its size; the parts were made from zero.
    const double additions = routes ? controls_.moc->top_k + 2 : 2;
    const double rounding = additions * 0x1p-24 * rms(sums.out);
    const double ratio = mixed / (bound + rounding) - 1;
    if (!(ratio <= worst)) {
      worst = ratio;
      check = {check.name, check.statement, mixed, bound, ratio <= 0, site_name(i)};
    }
    table.add({layer_of(i), to_string(kind_of(i)), rms(sums.target), own, routed, mixed, bound});
  }
  report.tables.push_back(std::move(table));
  report.checks.push_back(std::move(check));
}

}  // namespace fathom::diagnose::moc
