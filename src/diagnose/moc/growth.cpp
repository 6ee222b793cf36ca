#include "diagnose/moc/growth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace fathom::diagnose::moc {
namespace {

using methods::moc::Choice;
using model::BlockSite;

constexpr double kUnit = 0x1p-24;  // rounding of one f32 operation

// sum_k pi_k value(control k) over the choices of a group.
template <typename Value>
double routed_sum(const Controls& controls, BlockSite site, const Choice& choice, Value value) {
  double sum = 0;
  for (std::size_t j = 0; j < choice.experts.size(); ++j)
    sum += static_cast<double>(choice.weights[j]) * value(*controls.find(choice.experts[j], site));
  return sum;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double percentile95(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) * 95 / 100);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

void Growth::Worst::see(double measured_now, double bound_now, double rounding,
                        std::size_t site_now) {
  const double allowed = bound_now + rounding;
  const double excess_now = allowed > 0 ? measured_now / allowed - 1 : (measured_now > 0 ? 1 : -1);
  // Not "greater": a NaN is worse than everything.
  if (!(excess_now <= excess)) *this = {measured_now, bound_now, excess_now, site_now};
}

double control_bound(const Controls& controls, const Passage& passage, std::size_t site) {
  const double own = controls.alpha * controls.norm(site);
  const auto found = passage.decisions.find(site);
  if (found == passage.decisions.end()) return own;
  double most = 0;
  for (const Choice& choice : found->second->groups)
    most = std::max(most, routed_sum(controls, kind_of(site), choice,
                                     [](const Control& c) { return c.norm(); }));
  return own + (1 - controls.alpha) * most;
}

void Growth::add(const Passage& passage, const std::vector<SiteRecord>& records) {
  for (const SiteRecord& record : records) {
    const std::size_t index = static_cast<std::size_t>(&record - records.data());
    Site& site = sites_.at(index);
    const Control* control = controls_.find(record.layer, record.site);
    const double own = control != nullptr ? controls_.alpha * control->norm() : 0;
    const double own_rounding = control != nullptr ? controls_.alpha * control->factors : 0;
    const auto found = passage.decisions.find(index);
    const bool routes = found != passage.decisions.end();
    const std::size_t groups = routes ? found->second->groups.size() : 1;
    for (std::size_t g = 0; g < groups; ++g) {
      double bound = own, rounding = own_rounding;
      if (routes) {
        const Choice& choice = found->second->groups[g];
        const double routed =
            routed_sum(controls_, record.site, choice, [](const Control& c) { return c.norm(); });
        site.routed += routed;
        site.groups += 1;
        site.most = std::max(site.most, routed);
        bound += (1 - controls_.alpha) * routed;
        rounding += (1 - controls_.alpha) * routed_sum(controls_, record.site, choice,
                                                       [](const Control& c) { return c.factors; });
      }
      const std::int32_t begin = routes ? passage.groups->starts[g] : 0,
                         end = routes ? passage.groups->starts[g + 1]
                                      : static_cast<std::int32_t>(passage.tokens());
      for (std::int32_t token = begin; token < end; ++token)
        add_token(record, token, bound, rounding);
    }
  }
}

// Rounding: sums of hidden and rank products, whose sizes |A| |B| |x| bounds; and the additions of
// the controls to the state.
void Growth::add_token(const SiteRecord& record, std::int64_t token, double bound,
                       double rounding) {
  const std::int64_t d = controls_.hidden;
  const auto at = [&](const std::vector<float>& values) { return values.data() + token * d; };
  const double x = std::sqrt(squares(at(record.x), nullptr, d)),
               out = std::sqrt(squares(at(record.out), nullptr, d)),
               branch = std::sqrt(squares(at(record.sum), at(record.x), d)),
               control = std::sqrt(squares(at(record.out), at(record.sum), d));
  if (x == 0) return;  // has no ratio; no control moves it either
  const double additions = controls_.moc ? controls_.moc->top_k + 2 : 2;
  const double slack =
      kUnit * (static_cast<double>(d + controls_.rank) * rounding * x + additions * out);
  const std::size_t index = site_index(record.layer, record.site);
  Site& site = sites_[index];
  site.growth.push_back(out / x);
  site.branch = std::max(site.branch, branch / x);
  site.control = std::max(site.control, control / x);
  growth_.see(out / x, 1 + branch / x + bound, slack / x, index);
  if (record.controlled) control_.see(control / x, bound, slack / x, index);
}

double Growth::factor(std::size_t site, bool parallel) const {
  const double without = 1 + sites_[site].branch;
  if (parallel || !controls_.moc) return without + controls_.parallel_bound(site);
  return without + controls_.alpha * controls_.norm(site) +
         (1 - controls_.alpha) * sites_[site].most;
}

Check Growth::check(const char* name, const char* statement, const Worst& worst) const {
  return {name, statement, worst.measured, worst.bound, worst.excess <= 0, site_name(worst.site)};
}

void Growth::report(Report& report) const {
  Table table{"growth",
              {"layer", "site", "operator_norm", "routed_norm", "margin", "branch_gain",
               "growth_mean", "growth_p95", "growth_max", "growth_factor", "growth_factor_parallel",
               "control_gain_max", "control_bound"}};
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    const Site& site = sites_[i];
    const double own = controls_.norm(i);
    const bool routes = site.groups > 0;
    const double routed = routes ? site.routed / site.groups : kNone;
    table.add({layer_of(i), to_string(kind_of(i)), own, routed, own - routed, site.branch,
               mean(site.growth), percentile95(site.growth),
               *std::max_element(site.growth.begin(), site.growth.end()), factor(i, false),
               factor(i, true), site.control,
               controls_.alpha * own + (routes ? (1 - controls_.alpha) * site.most : 0)});
  }
  report.tables.push_back(std::move(table));
  if (controls_.moc) {
    report_operator_norms(report);
    report_routed_norms(report);
  }
  report.checks.push_back(check("growth",
                                "every token: |x'| <= (1 + |f(x)|/|x| + alpha G + (1 - alpha) sum "
                                "pi_k G_k) |x| (Proposition 4.2)",
                                growth_));
  report.checks.push_back(check(
      "control", "every token: |c(x)| <= (alpha G + (1 - alpha) sum pi_k G_k) |x|", control_));
  report_picture(report);
}

void Growth::report_operator_norms(Report& report) const {
  // Weights are f32 and add up to 1 but for rounding.
  const double rounded = 1 + controls_.moc->top_k * kUnit;
  double own = 0, routed = 0, holds = 0, count = 0;
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    if (sites_[i].groups == 0) continue;
    const double here = controls_.norm(i), chosen = sites_[i].routed / sites_[i].groups;
    own += here;
    routed += chosen;
    holds += chosen <= here * rounded ? 1 : 0;
    count += 1;
  }
  report.facts.emplace_back("sites_where_routed_norm_is_smaller", holds / count);
  report.checks.push_back({"operator_norms",
                           "mean over sites: sum pi_k G_k <= G_t (condition of Proposition 4.2)",
                           routed / count, own / count, routed <= own * rounded});
}

void Growth::report_routed_norms(Report& report) const {
  LineChart chart{"Proposition 4.2: own and routed operator norms", "layer", "norm", {}};
  for (const BlockSite site : {BlockSite::attention, BlockSite::mlp}) {
    Line own{str("own, ", to_string(site)), {}, {}};
    Line routed{str("routed, ", to_string(site)), {}, {}, true};
    for (std::size_t i = site_index(0, site); i < sites_.size(); i += 2) {
      if (sites_[i].groups == 0) continue;
      for (Line* line : {&own, &routed}) line->x.push_back(static_cast<double>(layer_of(i)));
      own.y.push_back(controls_.norm(i));
      routed.y.push_back(sites_[i].routed / sites_[i].groups);
    }
    if (own.x.empty()) continue;
    chart.lines.push_back(std::move(own));
    chart.lines.push_back(std::move(routed));
  }
  report.pictures.emplace_back(std::move(chart));
}

void Growth::report_picture(Report& report) const {
  LineChart chart{"Growth from the embedding on, log10", "layer", "log10 of the product", {}};
  const auto line = [&](const char* name, bool dashed, const auto& value) {
    Line made{name, {0}, {0}, dashed};
    for (std::size_t i = 0; i < sites_.size(); ++i) {
      made.x.push_back(static_cast<double>(i + 1) / 2);
      made.y.push_back(made.y.back() + std::log10(value(i)));
    }
    chart.lines.push_back(std::move(made));
  };
  line("mean growth", false, [&](std::size_t i) { return mean(sites_[i].growth); });
  line("largest growth", false, [&](std::size_t i) {
    return *std::max_element(sites_[i].growth.begin(), sites_[i].growth.end());
  });
  line(controls_.moc ? "bound rho'" : "bound rho", true,
       [&](std::size_t i) { return factor(i, false); });
  if (controls_.moc) line("rho, alpha = 1", true, [&](std::size_t i) { return factor(i, true); });
  report.pictures.emplace_back(std::move(chart));
}

}  // namespace fathom::diagnose::moc
