#include "diagnose/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "diagnose/number.h"

namespace fathom::diagnose {
namespace {

constexpr double kWidth = 760, kHeight = 340;  // of one picture, in pixels
constexpr double kLeft = 80, kRight = 180, kTop = 40, kBottom = 50;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
constexpr std::array kColours = {"#1f5fa8", "#c8501e", "#2e8b57", "#8a4fa0", "#a08000", "#606060"};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += c;
    }
  return result;
}

std::string text(double x, double y, const char* anchor, const std::string& words,
                 const std::string& more = "") {
  return str("<text x=\"", x, "\" y=\"", y, "\" text-anchor=\"", anchor, "\"", more, ">",
             escaped(words), "</text>\n");
}

std::string stroke(double x1, double y1, double x2, double y2, const std::string& style) {
  return str("<line x1=\"", x1, "\" y1=\"", y1, "\" x2=\"", x2, "\" y2=\"", y2, "\" ", style,
             "/>\n");
}

std::string frame(const std::string& title, const std::string& x_label,
                  const std::string& y_label) {
  const double middle = kTop + kPlotHeight / 2;
  return text(kLeft, kTop - 14, "start", title, " font-size=\"15\"") +
         text(kLeft + kPlotWidth / 2, kHeight - 10, "middle", x_label) +
         text(18, middle, "middle", y_label, str(" transform=\"rotate(-90 18 ", middle, ")\""));
}

// The interval that an axis shows.
struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;

  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Not empty, whatever was included.
  Range settled() const {
    if (low > high) return {0, 1};
    const double slack = low == high ? std::max(std::abs(low) * 0.1, 1e-12) : 0;
    return {low - slack, high + slack};
  }
  double share(double value) const { return (value - low) / (high - low); }
};

// Round numbers, about five to an axis.
std::vector<double> ticks(const Range& range) {
  const double raw = (range.high - range.low) / 5;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw) {
      step = factor * power;
      break;
    }
  std::vector<double> result;
  for (double i = std::ceil(range.low / step); i * step <= range.high + step * 1e-9; ++i)
    result.push_back(i * step);
  return result;
}

std::string path_of(const Line& line, const Range& x, const Range& y) {
  std::string path;
  bool drawing = false;
  for (std::size_t i = 0; i < line.x.size(); ++i) {
    const bool there = std::isfinite(line.x[i]) && std::isfinite(line.y[i]);
    if (there)
      path += str(drawing ? "L" : "M", rounded(kLeft + x.share(line.x[i]) * kPlotWidth, 6), " ",
                  rounded(kTop + (1 - y.share(line.y[i])) * kPlotHeight, 6));
    drawing = there;
  }
  return path;
}

std::string draw(const LineChart& chart) {
  Range x, y;
  for (const Line& line : chart.lines) {
    FATHOM_CHECK(line.x.size() == line.y.size(), "line ", line.name);
    for (const double value : line.x) x.include(value);
    for (const double value : line.y) y.include(value);
  }
  x = x.settled();
  y = y.settled();
  std::string svg = frame(chart.title, chart.x_label, chart.y_label);
  const double bottom = kTop + kPlotHeight;
  for (const double tick : ticks(x))
    svg += text(kLeft + x.share(tick) * kPlotWidth, bottom + 18, "middle", rounded(tick, 6));
  for (const double tick : ticks(y)) {
    const double height = kTop + (1 - y.share(tick)) * kPlotHeight;
    svg += stroke(kLeft, height, kLeft + kPlotWidth, height, "stroke=\"#ddd\"") +
           text(kLeft - 8, height + 4, "end", rounded(tick, 6));
  }
  svg += stroke(kLeft, bottom, kLeft + kPlotWidth, bottom, "stroke=\"#333\"");
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const Line& line = chart.lines[i];
    const std::string style =
        str("fill=\"none\" stroke-width=\"1.8\" stroke=\"", kColours[i % kColours.size()], "\"",
            line.dashed ? " stroke-dasharray=\"6 4\"" : "");
    const double left = kLeft + kPlotWidth + 12, height = kTop + 10 + 20 * static_cast<double>(i);
    svg += str("<path d=\"", path_of(line, x, y), "\" ", style, "/>\n") +
           stroke(left, height, left + 22, height, style) +
           text(left + 28, height + 4, "start", line.name);
  }
  return svg;
}

std::string colour(double share) {
  const auto mix = [&](double from, double to) {
    return std::to_string(std::lround(from + share * (to - from)));
  };
  return "rgb(" + mix(255, 8) + "," + mix(255, 48) + "," + mix(255, 107) + ")";
}

// So many labels that they do not overlap.
std::size_t every(std::size_t labels, double room) {
  return 1 + static_cast<std::size_t>(static_cast<double>(labels) * 14 / room);
}

std::string draw(const HeatMap& map) {
  FATHOM_CHECK(map.values.size() == map.rows.size() * map.columns.size(), "map ", map.title);
  Range range;
  for (const double value : map.values) range.include(value);
  range = range.settled();
  std::string svg = frame(map.title, map.x_label, map.y_label);
  const double wide = kPlotWidth / static_cast<double>(map.columns.size()),
               high = kPlotHeight / static_cast<double>(map.rows.size());
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    const auto row = static_cast<double>(i / map.columns.size()),
               column = static_cast<double>(i % map.columns.size());
    const double value = map.values[i];
    svg += str("<rect x=\"", kLeft + column * wide, "\" y=\"", kTop + row * high, "\" width=\"",
               wide, "\" height=\"", high, "\" fill=\"",
               std::isfinite(value) ? colour(range.share(value)) : "#bbb", "\"/>\n");
  }
  svg += str("<rect x=\"", kLeft, "\" y=\"", kTop, "\" width=\"", kPlotWidth, "\" height=\"",
             kPlotHeight, "\" fill=\"none\" stroke=\"#333\"/>\n");
  for (std::size_t r = 0; r < map.rows.size(); r += every(map.rows.size(), kPlotHeight))
    svg += text(kLeft - 8, kTop + (static_cast<double>(r) + 0.5) * high + 4, "end", map.rows[r]);
  for (std::size_t c = 0; c < map.columns.size(); c += every(2 * map.columns.size(), kPlotWidth))
    svg += text(kLeft + (static_cast<double>(c) + 0.5) * wide, kTop + kPlotHeight + 18, "middle",
                map.columns[c]);
  const double left = kLeft + kPlotWidth + 20;
  for (int step = 0; step <= 4; ++step) {
    const double share = step / 4.0, height = kTop + 10 + 22 * (4 - step);
    svg += str("<rect x=\"", left, "\" y=\"", height, "\" width=\"18\" height=\"22\" fill=\"",
               colour(share), "\" stroke=\"#ddd\"/>\n") +
           text(left + 26, height + 15, "start",
                rounded(range.low + share * (range.high - range.low), 3));
  }
  return svg;
}

}  // namespace

std::string svg_page(const std::vector<Picture>& pictures) {
  const double height = kHeight * static_cast<double>(pictures.size());
  std::string svg = str("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", kWidth,
                        "\" height=\"", height, "\" viewBox=\"0 0 ", kWidth, " ", height,
                        "\" font-family=\"sans-serif\" font-size=\"12\">\n"
                        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    svg += str("<g transform=\"translate(0 ", kHeight * static_cast<double>(i), ")\">\n");
    svg += std::visit([](const auto& picture) { return draw(picture); }, pictures[i]) + "</g>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace fathom::diagnose
