#pragma once

#include <string>
#include <variant>
#include <vector>

/// Pictures as SVG text that every browser shows: no library, no script, no font of its own.
namespace fathom::diagnose {

struct Line {
  std::string name;
  std::vector<double> x, y;  ///< as many; a point that is not finite interrupts the line
  bool dashed = false;
};

struct LineChart {
  std::string title, x_label, y_label;
  std::vector<Line> lines;
};

/// Cells coloured from the least value (white) to the largest.
struct HeatMap {
  std::string title, x_label, y_label;
  std::vector<std::string> rows, columns;  ///< labels, from the top and from the left
  std::vector<double> values;              ///< [rows, columns]; what is not finite is grey
};

using Picture = std::variant<LineChart, HeatMap>;

/// One below the other. Throws Error(internal) for a line or a map whose lists do not fit together.
std::string svg_page(const std::vector<Picture>& pictures);

}  // namespace fathom::diagnose
