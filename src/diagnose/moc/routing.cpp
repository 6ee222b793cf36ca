#include "diagnose/moc/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "diagnose/moc/sites.h"

namespace fathom::diagnose::moc {
namespace {

using methods::moc::Choice;
using model::BlockSite;

double total(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

void accumulate(const std::vector<double>& from, std::vector<double>& into) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] += from[i];
}

std::set<int> experts_of(const Choice& choice) {
  return {choice.experts.begin(), choice.experts.end()};
}

}  // namespace

RoutingUse::RoutingUse(const Subject& subject)
    : spec_(*subject.moc()), layers_(subject.model().layers) {}

void RoutingUse::add(const Passage& passage, const Passage* other) {
  for (const auto& [index, decision] : passage.decisions) {
    Site& site = sites_[index];
    for (auto* values : {&site.taken, &site.weights, &site.picks, &site.probs})
      values->resize(static_cast<std::size_t>(layers_), 0.0);
    accumulate(decision->picks, site.picks);
    accumulate(decision->probs, site.probs);
    for (std::size_t g = 0; g < decision->groups.size(); ++g) {
      const Choice& choice = decision->groups[g];
      site.groups += 1;
      for (std::size_t j = 0; j < choice.experts.size(); ++j) {
        const auto expert = static_cast<std::size_t>(choice.experts[j]);
        site.taken[expert] += 1;
        site.weights[expert] += static_cast<double>(choice.weights[j]);
        site.self += expert == index / 2 ? 1 : 0;
      }
      if (other != nullptr)
        site.flips +=
            experts_of(choice) != experts_of(other->decisions.at(index)->groups.at(g)) ? 1 : 0;
    }
  }
  compares_ = compares_ || other != nullptr;
}

void RoutingUse::report(Report& report) const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  Table routing{
      "routing",
      {"layer", "site", "groups", "favourite", "favourite_share", "entropy", "own_share", "flips"}};
  Table usage{"usage", {"layer", "site", "expert", "share", "mean_weight", "token_share"}};
  std::vector<double> all;
  for (const auto& [index, site] : sites_) {
    const auto layer = layer_of(index);
    const double taken = total(site.taken), picked = total(site.picks);
    const auto best = std::max_element(site.taken.begin(), site.taken.end());
    const auto entropy = methods::moc::UsageLog().add(site.taken, layers_).entropy;
    routing.add({layer, to_string(kind_of(index)), site.groups,
                 std::int64_t{best - site.taken.begin()}, *best / taken, entropy,
                 site.self / site.groups, compares_ ? site.flips / site.groups : kNone});
    for (std::size_t e = 0; e < site.taken.size(); ++e)
      usage.add({layer, to_string(kind_of(index)), static_cast<std::int64_t>(e),
                 site.taken[e] / taken, site.taken[e] > 0 ? site.weights[e] / site.taken[e] : kNone,
                 site.picks[e] / picked});
    all.insert(all.end(), site.taken.begin(), site.taken.end());
  }
  const auto summary = methods::moc::UsageLog().add(all, layers_);
  report.facts.emplace_back("routing_entropy", summary.entropy);
  report.facts.emplace_back("routing_largest_share", summary.largest_share);
  report.facts.emplace_back("routing_unused_experts", summary.unused);
  report_balance(report);
  report.tables.push_back(std::move(routing));
  report.tables.push_back(std::move(usage));
  for (const BlockSite site : {BlockSite::attention, BlockSite::mlp})
    if (spec_.has(site == BlockSite::attention)) report_picture(report, site);
}

void RoutingUse::report_balance(Report& report) const {
  const bool shared = spec_.gate == methods::moc::Gate::shared;
  for (const BlockSite gate : {BlockSite::attention, BlockSite::mlp}) {
    const auto width = static_cast<std::size_t>(layers_);
    std::vector<double> picks(width, 0.0), probs(width, 0.0);
    for (const auto& [index, site] : sites_) {
      if (!shared && kind_of(index) != gate) continue;
      accumulate(site.picks, picks);
      accumulate(site.probs, probs);
    }
    const double picked = total(picks), tokens = total(probs);
    if (picked == 0) continue;  // the gate of a site that has no controls
    double balance = 0;
    for (std::size_t i = 0; i < width; ++i) balance += picks[i] / picked * probs[i] / tokens;
    report.facts.emplace_back(shared ? "balance" : str("balance_", to_string(gate)),
                              static_cast<double>(layers_) * balance);
    if (shared) break;
  }
}

void RoutingUse::report_picture(Report& report, BlockSite site) const {
  HeatMap map{
      str("Share of each expert at ", to_string(site), " sites"), "expert", "layer", {}, {}, {}};
  for (std::int64_t expert = 0; expert < layers_; ++expert)
    map.columns.push_back(std::to_string(expert));
  for (const auto& [index, use] : sites_) {
    if (kind_of(index) != site) continue;
    map.rows.push_back(std::to_string(index / 2));
    for (const double taken : use.taken) map.values.push_back(taken / total(use.taken));
  }
  report.pictures.emplace_back(std::move(map));
}

}  // namespace fathom::diagnose::moc
