// What a diagnosis writes: text that other programs read.

#include "diagnose/report.h"

#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "tests/support/temporary_directory.h"

namespace fathom::diagnose {
namespace {

Table sample_table() {
  Table table{"sample", {"layer", "a name, quoted", "value"}};
  table.add({std::int64_t{0}, "plain", 0.1});
  table.add({std::int64_t{-1}, "says \"no\", twice\n", std::nan("")});
  return table;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Report, CsvQuotesAndKeepsEveryDigit) {
  EXPECT_EQ(
      csv_text(sample_table()),
      "layer,\"a name, quoted\",value\r\n0,plain,0.1\r\n-1,\"says \"\"no\"\", twice\n\",\r\n");
  Table table{"t", {"x"}};
  table.add({0.1 + 0.2});
  EXPECT_EQ(csv_text(table), "x\r\n0.30000000000000004\r\n");
}

TEST(Report, ARowThatDoesNotFitIsRefused) {
  Table table{"t", {"x", "y"}};
  EXPECT_THROW(table.add({1.0}), Error);
}

TEST(Report, JsonHasFactsChecksAndTables) {
  Report report;
  report.facts = {{"zulu", std::int64_t{3}}, {"alpha", 0.95}};
  report.checks = {{"bound", "a <= b", 1, 2, true, "layer 3"}};
  report.tables = {sample_table()};
  const auto json = nlohmann::ordered_json::parse(json_text(report));
  EXPECT_EQ(json.begin().key(), "zulu") << "in the order in which they were given";
  EXPECT_EQ(json.at("alpha"), 0.95);
  EXPECT_EQ(json.at("checks")[0].at("worst"), "layer 3");
  EXPECT_EQ(json.at("sample")[1].at("a name, quoted"), "says \"no\", twice\n");
  EXPECT_TRUE(json.at("sample")[1].at("value").is_null()) << "not a number";
}

TEST(Report, ExitCodeSaysWhetherAllChecksHold) {
  Report report;
  EXPECT_EQ(report.exit_code(), 0);
  report.checks = {{"a", "a", 1, 2, true}, {"b", "b <= c", 3, 2, false, "layer 1"}};
  EXPECT_EQ(report.exit_code(), 1);
  EXPECT_NE(summary_text(report).find("FAILS  b <= c: 3 <= 2 at worst, layer 1"), std::string::npos)
      << summary_text(report);
}

TEST(Report, WritesAFileForEachTable) {
  const testing::TemporaryDirectory folder;
  Report report;
  report.tables = {sample_table()};
  write_report(folder / "deep/er", report);
  EXPECT_EQ(files::read_text(folder / "deep/er/sample.csv"), csv_text(sample_table()));
  EXPECT_FALSE(std::filesystem::exists(folder / "deep/er/report.svg")) << "there is no picture";
  report.pictures = {LineChart{"t", "x", "y", {}}};
  write_report(folder / "deep/er", report);
  EXPECT_TRUE(files::read_text(folder / "deep/er/report.svg").starts_with("<svg "));
  files::write_text_atomically(folder / "file", "");
  EXPECT_THROW(write_report(folder / "file/sub", report), Error);
}

TEST(Svg, LinesKeepTheirPlaceAndBreakWhereNothingIs) {
  const std::string svg = svg_page(
      {LineChart{"a < b & c", "x", "y", {{"one", {0, 1, 2, 3}, {0, 10, std::nan(""), 5}, true}}}});
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
  // The plot is 500 by 250 pixels, its lower left corner at (80, 290).
  EXPECT_NE(svg.find("d=\"M80 290L246.667 40M580 165\""), std::string::npos) << svg;
  EXPECT_EQ(count(svg, "stroke-dasharray"), 2u) << "the line and its key";
}

TEST(Svg, AMapHasACellForEachValue) {
  const std::string svg =
      svg_page({HeatMap{"m", "x", "y", {"a", "b"}, {"c", "d", "e"}, {0, 1, 2, 3, 4, NAN}}});
  EXPECT_EQ(count(svg, "<rect x="), 6u + 1u + 5u) << "cells, frame and key";
  EXPECT_EQ(count(svg, "#bbb"), 1u);
  EXPECT_EQ(count(svg, "rgb(255,255,255)"), 2u) << "the least, in the map and in the key";
  EXPECT_EQ(count(svg, "rgb(8,48,107)"), 2u) << "the largest";
  EXPECT_THROW(svg_page({HeatMap{"m", "x", "y", {"a"}, {"c", "d"}, {0}}}), Error);
}

TEST(Svg, ConstantAndEmptyPicturesAreDrawn) {
  const std::string svg =
      svg_page({LineChart{"flat", "x", "y", {{"l", {1}, {2}}}}, LineChart{"none", "x", "y", {}},
                HeatMap{"same", "x", "y", {"a"}, {"b"}, {3}}});
  EXPECT_EQ(count(svg, "nan"), 0u);
  EXPECT_EQ(count(svg, "inf"), 0u);
  EXPECT_EQ(count(svg, "<g transform"), 3u);
}

}  // namespace
}  // namespace fathom::diagnose
