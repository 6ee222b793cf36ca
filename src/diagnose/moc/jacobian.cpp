#include "diagnose/moc/jacobian.h"

#include <algorithm>
#include <cmath>

#include "diagnose/moc/growth.h"
#include "diagnose/moc/linear_maps.h"
#include "diagnose/moc/routing_term.h"

namespace fathom::diagnose::moc {
namespace {

constexpr std::uint32_t kStartSeed = 1, kProbeSeed = 2;
constexpr double kSettled = 0.01;  // relative change at which the power method stops

// Norms of several maps at once, each the largest |J^T u| over unit vectors u so far: from below.
struct Norms {
  std::vector<double> values, changes;

  explicit Norms(std::size_t maps) : values(maps, 0.0), changes(maps, 1.0) {}
  void see(std::size_t map, double norm) {
    changes[map] = norm > 0 ? std::abs(norm - values[map]) / norm : 0;
    values[map] = std::max(values[map], norm);
  }
  bool settled() const {
    return std::all_of(changes.begin(), changes.end(), [](double c) { return c < kSettled; });
  }
};

Norms site_norms(SiteJacobians maps, int iterations) {
  Norms norms(maps.sites());
  std::vector<States> v;
  for (std::uint32_t s = 0; s < maps.sites(); ++s)
    v.push_back(gaussian(maps.elements(), kStartSeed, s));
  for (int i = 0; i < iterations && !norms.settled(); ++i) {
    std::vector<States> u = maps.forward(v);
    for (States& states : u) normalise(states);
    v = maps.transposed(u);
    for (std::size_t s = 0; s < v.size(); ++s) norms.see(s, normalise(v[s]));
  }
  return norms;
}

Norms stack_norm(StackJacobian& map, int iterations) {
  Norms norm(1);
  States v = gaussian(map.elements(), kStartSeed, 0);
  for (int i = 0; i < iterations && !norm.settled(); ++i) {
    States u = map.forward(v);
    normalise(u);
    v = map.transposed(u);
    norm.see(0, normalise(v));
  }
  return norm;
}

// Root mean square gain from each site to the end, and its standard error.
struct Gains {
  std::vector<double> values, errors;
};

Gains gains_of(StackJacobian& map, std::size_t sites, int probes) {
  std::vector<double> sums(sites, 0.0), squares(sites, 0.0);
  for (int p = 0; p < probes; ++p) {
    map.transposed(gaussian(map.elements(), kProbeSeed, static_cast<std::uint32_t>(p)));
    for (std::size_t s = 0; s < sites; ++s) {
      sums[s] += map.squares(s);
      squares[s] += map.squares(s) * map.squares(s);
    }
  }
  Gains gains;
  const auto elements = static_cast<double>(map.elements());
  for (std::size_t s = 0; s < sites; ++s) {
    const double mean = sums[s] / probes;
    const double variance = (squares[s] / probes - mean * mean) * probes / (probes - 1);
    const double gain = std::sqrt(mean / elements);
    gains.values.push_back(gain);
    // Of the root of a mean: half its relative error.
    gains.errors.push_back(gain * std::sqrt(std::max(0.0, variance) / probes) / mean / 2);
  }
  return gains;
}

// Factors of the sites, and the logarithms of their products from each site to the end.
struct Factors {
  std::vector<double> values, log10_to_end;

  void finish() {
    log10_to_end.assign(values.size(), 0.0);
    double sum = 0;
    for (std::size_t s = values.size(); s-- > 0;) log10_to_end[s] = sum += std::log10(values[s]);
  }
};

std::vector<double> routing_terms(Subject& subject, Passage& passage) {
  std::vector<double> terms;
  subject.run(passage, nullptr, autograd::Var(subject.embed(passage)), [&](const SiteCall& call) {
    terms.push_back(routing_term(subject, passage, call));
    return call.apply();
  });
  return terms;
}

// At the site where a measured value comes closest to its bound.
Check worst_of(const char* name, const char* statement, const std::vector<double>& measured,
               const std::vector<double>& bounds) {
  std::size_t worst = 0;
  for (std::size_t s = 0; s < measured.size(); ++s)
    if (!(measured[s] * bounds[worst] <= measured[worst] * bounds[s])) worst = s;
  return {name,
          statement,
          measured[worst],
          bounds[worst],
          measured[worst] <= bounds[worst],
          site_name(worst)};
}

void draw(const Gains& gains, const Factors& factors, const Factors& parallel, bool moc,
          Report& report) {
  LineChart chart{"Gain of a gradient from the last layer down, log10", "layer", "log10", {}};
  Line gain{"|J|_F / sqrt(n)", {}, {}}, bound{moc ? "bound, rho'" : "bound, rho", {}, {}, true},
      other{"rho, alpha = 1", {}, {}, true};
  for (std::size_t s = 0; s < gains.values.size(); ++s) {
    for (Line* line : {&gain, &bound, &other}) line->x.push_back(static_cast<double>(s) / 2);
    gain.y.push_back(std::log10(gains.values[s]));
    bound.y.push_back(factors.log10_to_end[s]);
    other.y.push_back(parallel.log10_to_end[s]);
  }
  chart.lines = {std::move(gain), std::move(bound)};
  if (moc) chart.lines.push_back(std::move(other));
  report.pictures.emplace_back(std::move(chart));
}

}  // namespace

void report_jacobians(Subject& subject, Passage& passage, const Controls& controls,
                      const JacobianOptions& options, Report& report) {
  const std::size_t sites = subject.sites();
  const Norms branches =
      site_norms(SiteJacobians(subject, passage, Part::branch), options.iterations);
  const Norms whole = site_norms(SiteJacobians(subject, passage, Part::site), options.iterations);
  const std::vector<double> routing = routing_terms(subject, passage);
  StackJacobian stack(subject, passage);
  const Gains gains = gains_of(stack, sites, options.probes);
  const Norms norm = stack_norm(stack, options.iterations);

  Factors factors, parallel;
  for (std::size_t s = 0; s < sites; ++s) {
    factors.values.push_back(1 + branches.values[s] + control_bound(controls, passage, s));
    parallel.values.push_back(1 + branches.values[s] + controls.parallel_bound(s));
  }
  factors.finish();
  parallel.finish();

  Table table{"jacobian",
              {"layer", "site", "branch_norm", "branch_change", "site_norm", "site_change",
               "growth_factor", "growth_factor_parallel", "routing_term", "gain_to_end",
               "gain_error", "log10_bound_to_end", "log10_bound_to_end_parallel"}};
  std::vector<double> bounds;
  for (std::size_t s = 0; s < sites; ++s) {
    bounds.push_back(std::pow(10.0, factors.log10_to_end[s]));
    table.add({layer_of(s), to_string(kind_of(s)), branches.values[s], branches.changes[s],
               whole.values[s], whole.changes[s], factors.values[s], parallel.values[s], routing[s],
               gains.values[s], gains.errors[s], factors.log10_to_end[s],
               parallel.log10_to_end[s]});
  }
  report.tables.push_back(std::move(table));
  report.facts.emplace_back("jacobian_tokens", passage.tokens());
  report.facts.emplace_back("jacobian_norm", norm.values[0]);
  report.facts.emplace_back("jacobian_norm_change", norm.changes[0]);
  report.checks.push_back(worst_of("site_jacobian",
                                   "every site: |J| <= 1 + F + alpha G + (1 - alpha) sum pi_k G_k "
                                   "(Corollary 4.3, one site)",
                                   whole.values, factors.values));
  report.checks.push_back(
      worst_of("jacobian_gain",
               "every layer to the last: |J|_F / sqrt(n) <= product of rho' (Corollary 4.3)",
               gains.values, bounds));
  report.checks.push_back({"jacobian_norm", "all layers: |J| <= product of rho' (Corollary 4.3)",
                           norm.values[0], bounds[0], norm.values[0] <= bounds[0]});
  draw(gains, factors, parallel, controls.moc.has_value(), report);
}

}  // namespace fathom::diagnose::moc
