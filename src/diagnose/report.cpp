#include "diagnose/report.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/files.h"
#include "diagnose/number.h"

namespace fathom::diagnose {
namespace {

std::string text_of(double number) {
  return std::isfinite(number) ? rounded(number, 6) : "none";
}

std::string text_of(const Cell& cell) {
  if (const auto* number = std::get_if<double>(&cell)) return text_of(*number);
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return std::to_string(*whole);
  return std::get<std::string>(cell);
}

}  // namespace

void Table::add(std::vector<Cell> row) {
  FATHOM_CHECK(row.size() == columns.size(), "table ", name, ": ", row.size(), " cells for ",
               columns.size(), " columns");
  rows.push_back(std::move(row));
}

int Report::exit_code() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& c) { return c.holds; }) ? 0 : 1;
}

std::string summary_text(const Report& report) {
  std::string text;
  for (const auto& [key, cell] : report.facts) text += str(key, ": ", text_of(cell), "\n");
  for (const Check& check : report.checks) {
    text += str(check.holds ? "holds  " : "FAILS  ", check.statement, ": ", text_of(check.measured),
                " <= ", text_of(check.bound));
    text += check.worst.empty() ? "\n" : str(" at worst, ", check.worst, "\n");
  }
  return text;
}

void write_report(const std::filesystem::path& folder, const Report& report) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, ErrorKind::io, folder.string(), ": cannot be made: ", error.message());
  for (const Table& table : report.tables)
    files::write_text_atomically(folder / (table.name + ".csv"), csv_text(table));
  if (!report.pictures.empty())
    files::write_text_atomically(folder / "report.svg", svg_page(report.pictures));
  files::write_text_atomically(folder / "report.json", json_text(report));
}

}  // namespace fathom::diagnose
