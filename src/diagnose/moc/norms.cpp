#include "diagnose/moc/norms.h"

#include <cmath>
#include <limits>

namespace fathom::diagnose::moc {

using model::BlockSite;

void report_norms(const Controls& controls, Report& report) {
  Table table{"norms", {"layer", "site", "operator_norm", "frobenius_norm", "stable_rank", "gain"}};
  LineChart chart{"Operator norms of the controls", "layer", "|B A|", {}};
  for (const BlockSite site : {BlockSite::attention, BlockSite::mlp}) {
    Line line{to_string(site), {}, {}, site == BlockSite::mlp};
    for (const Control& control : controls.controls) {
      if (control.site != site) continue;
      line.x.push_back(static_cast<double>(control.layer));
      line.y.push_back(control.norm());
    }
    if (!line.x.empty()) chart.lines.push_back(std::move(line));
  }
  for (const Control& control : controls.controls) {
    double squares = 0;
    for (const double value : control.singular_values) squares += value * value;
    const double norm = control.norm();
    table.add({control.layer, to_string(control.site), norm, std::sqrt(squares),
               norm > 0 ? squares / (norm * norm) : std::numeric_limits<double>::quiet_NaN(),
               controls.alpha * norm});
  }
  report.tables.push_back(std::move(table));
  report.pictures.emplace_back(std::move(chart));
}

}  // namespace fathom::diagnose::moc
