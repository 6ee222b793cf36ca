#include "launch/options/option_table.h"

#include <gtest/gtest.h>

#include "launch/options/edit_distance.h"
#include "tests/support/expect_error.h"

namespace fathom::options {
namespace {

using testing::expect_error;

struct Values {
  int count = 3;
  double rate = 0.1;
  bool on = false;
  std::string folder;
  std::vector<int> split;
  DType dtype = DType::f32;
};

struct Fixture {
  Values values;
  OptionTable table;
  Fixture() {
    table.section("alpha", "First");
    table.add("count", values.count, {.help = "How many.", .range = within(1, 9)});
    table.add("rate", values.rate, {.help = "How fast.", .unit = "1/s", .range = above(0)});
    table.add("on", values.on, {.help = "Whether."});
    table.section("beta", "Second", OnResume::free);
    table.add("folder", values.folder, {.help = "Where.", .unit = "folder"});
    table.add("split", values.split, {.help = "Parts.", .range = at_least(1)});
    table.add("dtype", values.dtype, {.help = "Type.", .on_resume = OnResume::data});
  }
};

TEST(EditDistance, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2u);
  EXPECT_EQ(edit_distance("intention", "execution"), 5u);
}

TEST(Codec, NumbersAreWholeWordsAndFinite) {
  EXPECT_EQ(Codec<int>::parse("-7"), -7);
  EXPECT_EQ(Codec<int>::parse("7.0"), std::nullopt);
  EXPECT_EQ(Codec<int>::parse("7 "), std::nullopt);
  EXPECT_EQ(Codec<int>::parse(""), std::nullopt);
  EXPECT_EQ(Codec<int>::parse("2147483648"), std::nullopt);
  EXPECT_EQ(Codec<std::int64_t>::parse("2147483648"), 2147483648);
  EXPECT_EQ(Codec<double>::parse("1e-4"), 1e-4);
  EXPECT_EQ(Codec<double>::parse("1,5"), std::nullopt);
  EXPECT_EQ(Codec<double>::parse("nan"), std::nullopt);
  EXPECT_EQ(Codec<double>::parse("inf"), std::nullopt);
  EXPECT_EQ(Codec<bool>::parse("yes"), std::nullopt);
}

TEST(Codec, DoublesReadBackToTheSameBits) {
  for (double value : {0.1, 1.0 / 3, 1e-8, 5e-324, 1.7976931348623157e308, 2.5e-5, 0.0, -1.5})
    EXPECT_EQ(Codec<double>::parse(Codec<double>::print(value)), value);
  EXPECT_EQ(Codec<double>::print(0.25), "0.25");
}

TEST(Codec, Lists) {
  using List = std::vector<int>;
  EXPECT_EQ(Codec<List>::parse("3, 2,3"), (List{3, 2, 3}));
  EXPECT_EQ(Codec<List>::parse(""), List{});
  EXPECT_EQ(Codec<List>::parse("3,,2"), std::nullopt);
  EXPECT_EQ(Codec<List>::parse("3,2,"), std::nullopt);
  EXPECT_EQ(Codec<List>::print({3, 2, 3}), "3,2,3");
}

TEST(Codec, LayersAndPatterns) {
  using train::LayerChoice;
  using train::NamePatterns;
  EXPECT_EQ(Codec<LayerChoice>::parse("every:3"), (LayerChoice{{}, 3}));
  EXPECT_EQ(Codec<LayerChoice>::parse("every:0"), std::nullopt);
  EXPECT_EQ(Codec<LayerChoice>::parse("0,3,6"), (LayerChoice{{0, 3, 6}, 0}));
  EXPECT_EQ(Codec<LayerChoice>::print({{}, 3}), "every:3");
  EXPECT_EQ(Codec<NamePatterns>::parse("none"), NamePatterns{});
  EXPECT_EQ(Codec<NamePatterns>::parse("all"), (NamePatterns{{"*"}}));
  EXPECT_EQ(Codec<NamePatterns>::parse("a.*, b"), (NamePatterns{{"a.*", "b"}}));
  EXPECT_EQ(Codec<NamePatterns>::parse(""), std::nullopt);
  EXPECT_EQ(Codec<NamePatterns>::print({{"a.*", "b"}}), "a.*,b");
}

TEST(Range, SaysWhatItAccepts) {
  EXPECT_EQ(above(0).text(), "greater than 0");
  EXPECT_EQ(at_least(1).text(), "at least 1");
  EXPECT_EQ(within(1, 9).text(), "1 to 9");
  EXPECT_EQ(from_below(0, 1).text(), "at least 0 and less than 1");
  EXPECT_EQ(Range{}.text(), "");
  EXPECT_FALSE(above(0).holds(0));
  EXPECT_TRUE(from_below(0, 1).holds(0));
  EXPECT_FALSE(from_below(0, 1).holds(1));
}

TEST(OptionTable, AssignsTypedValuesAndKeepsTheirOrigin) {
  Fixture f;
  f.table.assign("alpha.count", "9", "a.ini:2");
  f.table.assign("alpha.rate", "2.5", "command line");
  f.table.assign("alpha.on", "true", "command line");
  f.table.assign("beta.split", "4,1", "a.ini:7");
  f.table.assign("beta.dtype", "bf16", "a.ini:8");
  EXPECT_EQ(f.values.count, 9);
  EXPECT_EQ(f.values.rate, 2.5);
  EXPECT_TRUE(f.values.on);
  EXPECT_EQ(f.values.split, (std::vector<int>{4, 1}));
  EXPECT_EQ(f.values.dtype, DType::bf16);
  EXPECT_EQ(f.table.describe_value("alpha.count"), "alpha.count = 9 (a.ini:2)");
  EXPECT_EQ(f.table.describe_value("beta.folder"), "beta.folder = (empty) (default)");
}

TEST(OptionTable, RefusesAValueWithKeyOriginAndWhatIsAccepted) {
  Fixture f;
  expect_error(
      ErrorKind::config, [&] { f.table.assign("alpha.count", "10", "a.ini:4"); },
      "alpha.count = '10'", "a.ini:4", "integer 1 to 9");
  expect_error(
      ErrorKind::config, [&] { f.table.assign("alpha.rate", "fast", "command line"); },
      "alpha.rate = 'fast'", "number greater than 0");
  expect_error(
      ErrorKind::config, [&] { f.table.assign("beta.split", "2,0", "command line"); },
      "beta.split = '2,0'", "list of integers at least 1");
  expect_error(
      ErrorKind::config, [&] { f.table.assign("beta.dtype", "f16", "command line"); },
      "beta.dtype = 'f16'", "f32|bf16");
  expect_error(
      ErrorKind::config, [&] { f.table.assign("alpha.on", "1", "command line"); }, "alpha.on = '1'",
      "true|false");
  EXPECT_EQ(f.values.count, 3);
  EXPECT_EQ(f.table.find("alpha.count")->origin, "default");
}

TEST(OptionTable, RefusesATextThatNoFileCouldHold) {
  Fixture f;
  for (const char* text : {"a#b", " a", "a ", "a\nb"})
    expect_error(
        ErrorKind::config, [&] { f.table.assign("beta.folder", text, "command line"); },
        "beta.folder", "recipe file");
}

TEST(OptionTable, NamesTheNearestOption) {
  Fixture f;
  EXPECT_EQ(nearest_option(f.table, "alpha.cuont"), "alpha.count");
  EXPECT_EQ(nearest_option(f.table, "alpa.count"), "alpha.count");
  EXPECT_EQ(nearest_option(f.table, "rate"), "alpha.rate");
  EXPECT_EQ(nearest_option(f.table, "alpha.dtype"), "beta.dtype");
  EXPECT_EQ(nearest_option(f.table, "something.else_entirely"), "");
  expect_error(
      ErrorKind::config, [&] { f.table.assign("alpha.cuont", "1", "x.ini:3"); },
      "unknown option 'alpha.cuont'", "x.ini:3", "'alpha.count'");
  expect_error(
      ErrorKind::config, [&] { f.table.assign("zzzzzz.qqqqq", "1", "x.ini:3"); },
      "unknown option 'zzzzzz.qqqqq'", "--help");
}

TEST(OptionTable, AnOptionMayDifferFromItsSectionOnResume) {
  Fixture f;
  EXPECT_EQ(f.table.find("alpha.rate")->on_resume, OnResume::training);
  EXPECT_EQ(f.table.find("beta.folder")->on_resume, OnResume::free);
  EXPECT_EQ(f.table.find("beta.dtype")->on_resume, OnResume::data);
}

TEST(OptionTable, ANameIsDescribedOnce) {
  Fixture f;
  EXPECT_THROW(f.table.add("split", f.values.split, {.help = "Again."}), Error);
}

}  // namespace
}  // namespace fathom::options
