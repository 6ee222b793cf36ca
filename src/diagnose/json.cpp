#include <cmath>
#include <nlohmann/json.hpp>

#include "diagnose/report.h"

namespace fathom::diagnose {
namespace {

using nlohmann::ordered_json;

ordered_json value(double number) {
  return std::isfinite(number) ? ordered_json(number) : ordered_json(nullptr);
}

ordered_json value(const Cell& cell) {
  if (const auto* number = std::get_if<double>(&cell)) return value(*number);
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return *whole;
  return std::get<std::string>(cell);
}

ordered_json value(const Check& check) {
  ordered_json json = {{"name", check.name},
                       {"statement", check.statement},
                       {"holds", check.holds},
                       {"measured", value(check.measured)},
                       {"bound", value(check.bound)}};
  if (!check.worst.empty()) json["worst"] = check.worst;
  return json;
}

ordered_json value(const Table& table) {
  ordered_json rows = ordered_json::array();
  for (const auto& row : table.rows) {
    ordered_json& object = rows.emplace_back(ordered_json::object());
    for (std::size_t i = 0; i < row.size(); ++i) object[table.columns[i]] = value(row[i]);
  }
  return rows;
}

}  // namespace

std::string json_text(const Report& report) {
  ordered_json json = ordered_json::object();
  for (const auto& [key, cell] : report.facts) json[key] = value(cell);
  json["checks"] = ordered_json::array();
  for (const Check& check : report.checks) json["checks"].push_back(value(check));
  for (const Table& table : report.tables) json[table.name] = value(table);
  return json.dump(2) + "\n";
}

}  // namespace fathom::diagnose
