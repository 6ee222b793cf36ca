#include "diagnose/depth/report.h"

#include <algorithm>

#include "core/error.h"

namespace fathom::diagnose::depth {
namespace {

std::int64_t layer_number(const DepthSums& sums, std::size_t j) {
  return sums.first + static_cast<std::int64_t>(j);
}

std::int64_t whole(double count) {
  return static_cast<std::int64_t>(count);
}

Table layer_table(const DepthSums& sums) {
  Table table{"layers",
              {"layer", "loss", "kl_from_last", "accuracy", "agreement", "adds", "solved",
               "router_weight", "router_first"}};
  const double n = std::max(1.0, sums.tokens);
  const auto row = [&](Cell name, const LayerSums& layer) {
    table.add({name, layer.loss / n, layer.divergence / n, layer.correct / n, layer.agrees / n,
               layer.adds / n, whole(layer.solved), layer.weight / n, layer.largest / n});
  };
  for (std::size_t j = 0; j < sums.k(); ++j) row(layer_number(sums, j), sums.layers[j]);
  row(std::string("mixture"), sums.mixture);
  return table;
}

Table overlap_table(const std::string& name, const DepthSums& sums,
                    const std::vector<double>& both) {
  Table table{name, {"layer"}};
  for (std::size_t i = 0; i < sums.k(); ++i)
    table.columns.push_back(str("layer_", layer_number(sums, i)));
  for (std::size_t j = 0; j < sums.k(); ++j) {
    std::vector<Cell> row = {layer_number(sums, j)};
    for (std::size_t i = 0; i < sums.k(); ++i) row.emplace_back(whole(both[j * sums.k() + i]));
    table.add(std::move(row));
  }
  return table;
}

// Which examples each layer solves.
Table example_table(const DepthSums& sums) {
  Table table{"examples_solved", {"record"}};
  for (std::size_t j = 0; j < sums.k(); ++j)
    table.columns.push_back(str("layer_", layer_number(sums, j)));
  table.columns.emplace_back("mixture");
  for (const ExampleSolved& example : sums.solved) {
    std::vector<Cell> row = {example.record};
    for (const char by : example.by) row.emplace_back(std::int64_t{by == '1'});
    table.add(std::move(row));
  }
  return table;
}

// Of what the row's layer puts right, the share that the column's does as well.
HeatMap overlap_map(const DepthSums& sums) {
  HeatMap map;
  map.title = "Share of the row's right tokens that the column has right too";
  map.x_label = map.y_label = "layer";
  for (std::size_t j = 0; j < sums.k(); ++j) {
    map.rows.push_back(str(layer_number(sums, j)));
    map.columns.push_back(map.rows.back());
    for (std::size_t i = 0; i < sums.k(); ++i)
      map.values.push_back(sums.both_correct[j * sums.k() + i] /
                           sums.both_correct[j * sums.k() + j]);
  }
  return map;
}

LineChart chart(const DepthSums& sums, const std::string& title, const std::string& y_label,
                const std::vector<std::pair<std::string, double LayerSums::*>>& lines) {
  LineChart chart;
  chart.title = title;
  chart.x_label = "layer";
  chart.y_label = y_label;
  for (const auto& [name, member] : lines) {
    Line line;
    line.name = name;
    for (std::size_t j = 0; j < sums.k(); ++j) {
      line.x.push_back(static_cast<double>(layer_number(sums, j)));
      line.y.push_back(sums.layers[j].*member / std::max(1.0, sums.tokens));
    }
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

}  // namespace

Report report_of(const DepthSums& sums, const DepthRule& rule, bool routed) {
  const Recommendation found = recommend(sums, rule, routed);
  const double n = std::max(1.0, sums.tokens);
  Report report;
  report.facts = {{"late_layers", static_cast<std::int64_t>(sums.k())},
                  {"tokens", whole(sums.tokens)},
                  {"examples", whole(sums.examples)},
                  {"loss", sums.mixture.loss / n},
                  {"accuracy", sums.mixture.correct / n},
                  {"router_entropy", sums.entropy / n},
                  {"recommended_k", std::int64_t{found.k}},
                  {"because", found.reason}};
  report.tables = {layer_table(sums), overlap_table("tokens_both", sums, sums.both_correct),
                   overlap_table("examples_both", sums, sums.both_solved), example_table(sums)};
  report.pictures = {
      chart(sums, "Each layer through the head", "nats",
            {{"loss", &LayerSums::loss}, {"KL from the last", &LayerSums::divergence}}),
      chart(sums, "Shares of the tokens", "share",
            {{"right", &LayerSums::correct},
             {"as the last layer", &LayerSums::agrees},
             {"right alone", &LayerSums::adds},
             {"router weight", &LayerSums::weight}}),
      overlap_map(sums)};
  return report;
}

}  // namespace fathom::diagnose::depth
