// The spans of a micro-batch, and which layers and spans a run aligns.

#include <gtest/gtest.h>

#include "methods/key_layers.h"
#include "methods/mta/granularity.h"
#include "methods/mta/level_spans.h"
#include "tests/autograd/gradient_check.h"
#include "tests/support/expect_error.h"

namespace fathom::methods {
namespace {

using mta::Granularity;
using mta::Level;
using mta::LevelSpans;
using mta::RowSpan;
using mta::SpanList;
using testing::expect_error;

data::MicroBatch batch_of(std::vector<std::int32_t> starts) {
  data::MicroBatch batch;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s)
    batch.sample_index.push_back(70 + static_cast<std::int64_t>(s));
  batch.cu_seqlens = std::move(starts);
  return batch;
}

SpanList list_of(const std::vector<std::vector<RowSpan>>& samples) {
  SpanList list;
  for (const auto& spans : samples) list.add_sample(spans);
  return list;
}

TEST(LevelSpans, KnowsWhichSpansHoldARow) {
  const auto device = test::make_test_device();
  const LevelSpans spans(*device, batch_of({0, 4, 4, 9}),
                         list_of({{{0, 2}, {1, 3}}, {}, {{4, 5}, {4, 7}, {8, 9}}}));
  EXPECT_EQ(to_host_i32(spans.counts()), (std::vector<std::int32_t>{1, 2, 1, 0, 2, 1, 1, 0, 1}));
  EXPECT_EQ(to_host_i32(spans.covered()), (std::vector<std::int32_t>{0, 1, 2, 4, 5, 6, 8}));
  EXPECT_EQ(to_host_i32(spans.covering_begin()),
            (std::vector<std::int32_t>{0, 1, 3, 4, 6, 7, 8, 9}));
  EXPECT_EQ(to_host_i32(spans.covering()), (std::vector<std::int32_t>{0, 0, 1, 1, 2, 3, 3, 3, 4}));
  EXPECT_EQ(to_host_i32(spans.bounds()), (std::vector<std::int32_t>{0, 2, 1, 3, 4, 5, 4, 7, 8, 9}));
  ASSERT_EQ(spans.samples().size(), 3u);
  const LevelSpans::Sample& last = spans.samples()[2];
  EXPECT_EQ(last.row, 4);
  EXPECT_EQ(last.rows, 5);
  EXPECT_EQ(last.span, 2);
  EXPECT_EQ(last.spans, 3);
  EXPECT_EQ(last.covered, 3);
  EXPECT_EQ(last.covered_rows, 4);
  EXPECT_EQ(spans.samples()[1].spans + spans.samples()[1].covered_rows, 0);
}

TEST(LevelSpans, CountsTheSamplesOfEachTerm) {
  const SpanList list = list_of({{{0, 2}, {1, 3}}, {}, {{4, 5}}});
  EXPECT_EQ(list.dsa_samples(), 1);
  EXPECT_EQ(list.hid_samples(), 2);
  EXPECT_EQ(SpanList{}.hid_samples(), 0);
}

TEST(LevelSpans, RefusesWhatIsNoSpanOfItsSample) {
  const auto device = test::make_test_device();
  const auto refuse = [&](const std::vector<RowSpan>& second, const std::string& span) {
    expect_error(
        ErrorKind::data,
        [&] {
          LevelSpans(*device, batch_of({0, 4, 9}), list_of({{{0, 4}}, second}));
        },
        "span " + span + " of sample 71", "[0, 5) tokens");
  };
  refuse({{5, 5}}, "[1, 1)");
  refuse({{7, 6}}, "[3, 2)");
  refuse({{3, 6}}, "[-1, 2)");
  refuse({{4, 10}}, "[0, 6)");
  refuse({{6, 7}, {5, 7}}, "[1, 3)");
  expect_error(
      ErrorKind::internal,
      [&] {
        LevelSpans(*device, batch_of({0, 4}), SpanList{});
      },
      "0 samples");
}

// --- key layers ---

using Pairs = std::vector<KeyLayer>;

TEST(KeyLayers, AreProportionalByDefault) {
  EXPECT_EQ(key_layers("mta", {}, {}, 12, 48), (Pairs{{6, 24}, {9, 36}, {12, 48}}));
  EXPECT_EQ(key_layers("mta", {16, 18, 24}, {}, 24, 32), (Pairs{{16, 21}, {18, 24}, {24, 32}}));
  EXPECT_EQ(key_layers("mta", {0, 1, 4}, {}, 4, 6), (Pairs{{0, 0}, {1, 2}, {4, 6}}));
  EXPECT_EQ(default_key_layers(10), (std::vector<int>{5, 8, 10}));
  EXPECT_EQ(default_key_layers(1), (std::vector<int>{1}));
}

TEST(KeyLayers, TakeAnExplicitMap) {
  EXPECT_EQ(key_layers("fdd", {16, 18, 24}, {20, 23, 32}, 24, 32),
            (Pairs{{16, 20}, {18, 23}, {24, 32}}));
}

TEST(KeyLayers, AreCheckedAgainstBothModels) {
  const auto refuse = [](std::vector<int> student, std::vector<int> teacher,
                         const std::string& expected) {
    expect_error(
        ErrorKind::config, [&] { key_layers("mta", student, teacher, 4, 6); }, expected);
  };
  refuse({5}, {}, "mta.student_layers = 5: layer 5 of a model with 4 blocks");
  refuse({-1, 2}, {}, "layer -1");
  refuse({1, 2}, {3, 7}, "mta.teacher_layers = 3,7: layer 7 of a model with 6 blocks");
  refuse({1, 2}, {3}, "mta.student_layers = 1,2 and mta.teacher_layers = 3");
  refuse({2, 1}, {}, "mta.student_layers = 2,1: the layers must ascend");
  refuse({1, 2}, {3, 3}, "mta.teacher_layers = 3,3: the layers must ascend");
}

TEST(Granularity, PutsWordsBelowPhrases) {
  constexpr Level w = Level::words, p = Level::phrases;
  using Levels = std::vector<Level>;
  EXPECT_EQ(levels(Granularity::adaptive, 0, 3), (Levels{w, p, p}));
  EXPECT_EQ(levels(Granularity::adaptive, 0, 4), (Levels{w, w, p, p}));
  EXPECT_EQ(levels(Granularity::adaptive, 1, 6), (Levels{w, p, p, p, p, p}));
  EXPECT_EQ(levels(Granularity::words, 0, 2), (Levels{w, w}));
  EXPECT_EQ(levels(Granularity::phrases, 0, 2), (Levels{p, p}));
}

}  // namespace
}  // namespace fathom::methods
