#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "diagnose/svg.h"

/// What `fathom diagnose` finds, as files: tables for programs, a summary, and pictures.
namespace fathom::diagnose {

/// A number or a word. What is not finite is an empty field in CSV and null in JSON.
using Cell = std::variant<std::int64_t, double, std::string>;

struct Table {
  std::string name;  ///< of its file, and of its key in the summary
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows = {};

  /// Throws Error(internal) unless the row has a cell for each column.
  void add(std::vector<Cell> row);
};

/// An inequality that must hold: at its worst place, what was measured and what bounds it.
struct Check {
  std::string name;
  std::string statement;  ///< the inequality in words, with the number in its paper
  double measured = 0, bound = 0;
  bool holds = false;
  std::string worst = {};  ///< the place; empty where there is only one
};

struct Report {
  std::vector<std::pair<std::string, Cell>> facts;  ///< key and value, in this order
  std::vector<Check> checks;
  std::vector<Table> tables;
  std::vector<Picture> pictures;

  /// Of the command: 0, or 1 if a check does not hold.
  int exit_code() const;
};

/// The table as RFC 4180 has it, with a line of column names; numbers as short as they can be
/// written without loss.
std::string csv_text(const Table& table);

/// All but the pictures: facts as keys, "checks" as a list, each table as a list of objects.
std::string json_text(const Report& report);

/// Facts and checks for a terminal, one line each.
std::string summary_text(const Report& report);

/// Makes `folder` if need be and writes report.json, a <table>.csv for each table and, if there are
/// pictures, report.svg. Throws Error(io).
void write_report(const std::filesystem::path& folder, const Report& report);

}  // namespace fathom::diagnose
