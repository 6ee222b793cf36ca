#include <cmath>

#include "diagnose/number.h"
#include "diagnose/report.h"

namespace fathom::diagnose {
namespace {

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + "\"";
}

std::string field(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return quoted(*text);
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return std::to_string(*whole);
  const double number = std::get<double>(cell);
  return std::isfinite(number) ? shortest(number) : "";
}

}  // namespace

std::string csv_text(const Table& table) {
  std::string text;
  const auto line = [&](std::size_t fields, const auto& at) {
    for (std::size_t i = 0; i < fields; ++i) text += (i > 0 ? "," : "") + at(i);
    text += "\r\n";
  };
  line(table.columns.size(), [&](std::size_t i) { return quoted(table.columns[i]); });
  for (const auto& row : table.rows) line(row.size(), [&](std::size_t i) { return field(row[i]); });
  return text;
}

}  // namespace fathom::diagnose
