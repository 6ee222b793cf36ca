// The feed of spans into training: the same spans from file, extractor, and any number of threads.
#include "data/spans/span_source.h"

#include <atomic>
#include <numeric>

#include "tests/data_room/spans/span_fixture.h"

namespace fathom::data::spans {
namespace {

class SpanSourceTest : public test::SpanFixture {
 protected:
  SpanSource::Parts extracting(std::shared_ptr<const TokenFile> tokens, int threads) {
    return {.tokens = std::move(tokens),
            .file = {},
            .tokenizer = tokenizer,
            .find =
                [this](std::span<const std::string_view> texts) {
                  ++parsed;
                  return test::find_each_plain(texts);
                },
            .threads = threads};
  }

  std::atomic<int> parsed = 0;
};

TEST_F(SpanSourceTest, FileAndExtractorAgreeForAnyThreads) {
  const auto tokens = open(random_records(100));
  std::vector<std::int64_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  const std::filesystem::path path = write_spans(*tokens);
  for (const int threads : {0, 1, 4}) {
    SpanSource::Parts from_file{.tokens = tokens, .file = SpanFile::open(path), .threads = threads};
    SpanSource file(std::move(from_file));
    SpanSource extractor(extracting(tokens, threads));
    file.prefetch(all);
    extractor.prefetch(std::span(all).first(50));  // the rest is found when asked for
    for (std::int64_t r = 99; r >= 0; --r) {
      TokenSpans spans = expected(tokens->record(r));
      cut_spans(spans, 12);
      EXPECT_EQ(file.get(r, 12), spans);
      EXPECT_EQ(extractor.get(r, 12), spans);
    }
    EXPECT_EQ(file.take_counts().extracted, 0);
    const SpanCounts counts = extractor.take_counts();
    EXPECT_EQ(counts.asked, 100);
    EXPECT_EQ(counts.extracted, 100);
    EXPECT_GT(counts.beyond_cut, 0);
    EXPECT_EQ(extractor.take_counts().asked, 0);
  }
}

TEST_F(SpanSourceTest, TextsOfTheStudentAreParsedOnce) {
  SpanSource source(extracting(nullptr, 2));
  const std::vector<PlainRecord> records = random_records(40);
  std::vector<TokenRecord> texts;
  for (const PlainRecord& record : records) texts.push_back({record.ids, record.prompt_length});
  for (int round = 0; round < 3; ++round) {
    source.prefetch(texts);
    for (const TokenRecord& text : texts) {
      TokenSpans spans = expected(text);
      cut_spans(spans, std::ssize(text.ids) - 1);
      EXPECT_EQ(source.get(text), spans);
    }
  }
  EXPECT_EQ(parsed, 40);
  // The same ids with another prompt are another text.
  const TokenRecord moved{texts[0].ids, (texts[0].prompt_length + 1) % 2};
  EXPECT_EQ(source.get(moved).prompt_length, moved.prompt_length);
  EXPECT_EQ(parsed, 41);
}

TEST_F(SpanSourceTest, KeepsABoundedNumber) {
  const auto tokens = open(random_records(30));
  SpanSource::Parts parts = extracting(tokens, 1);
  parts.kept = 4;
  SpanSource source(std::move(parts));
  for (std::int64_t r = 0; r < 30; ++r) source.get(r, 100);
  for (std::int64_t r = 27; r < 30; ++r) source.get(r, 100);
  EXPECT_EQ(parsed, 30) << "the newest are still there";
  source.get(0, 100);
  EXPECT_EQ(parsed, 31) << "the oldest are not";
}

TEST_F(SpanSourceTest, CountsTheTimeThatCallersWait) {
  SpanSource::Parts parts = extracting(nullptr, 0);
  parts.find = [](std::span<const std::string_view> texts) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return test::find_each_plain(texts);
  };
  SpanSource source(std::move(parts));
  const std::vector<std::int32_t> ids{0, 1, 2};
  source.get(TokenRecord{ids, 1});
  const SpanCounts first = source.take_counts();
  EXPECT_GE(first.exposed_seconds, 0.02);
  EXPECT_GE(first.parsing_seconds, 0.02);
  EXPECT_EQ(first.words, 2) << "the last id is no row";
  source.get(TokenRecord{ids, 1});
  EXPECT_LT(source.take_counts().exposed_seconds, first.exposed_seconds);
}

TEST_F(SpanSourceTest, ErrorsReachTheCaller) {
  SpanSource source(extracting(nullptr, 1));
  const std::vector<std::int32_t> good{0, 1}, bad{0, 99};
  const std::vector<TokenRecord> texts{{bad, 0}, {good, 0}};
  source.prefetch(texts);
  EXPECT_THROW(source.get(texts[0]), Error);
  EXPECT_NO_THROW(source.get(texts[1]));
}

TEST_F(SpanSourceTest, PartsThatDoNotBelongTogether) {
  const auto tokens = open(random_records(10));
  expect_error(ErrorKind::config, {"spans.train", "spans.model"},
               [&] { SpanSource({.tokens = tokens}); });
  const std::filesystem::path path = write_spans(*tokens);
  auto other = random_records(10);
  other[4].ids[1] ^= 1;
  const auto changed = std::make_shared<const TokenFile>(TokenFile::open(write(other, "new.h5")));
  expect_error(ErrorKind::data, {"spans.h5", "new.h5"},
               [&] { SpanSource({.tokens = changed, .file = SpanFile::open(path)}); });
  SpanSource file_only({.tokens = tokens, .file = SpanFile::open(path)});
  const std::vector<std::int32_t> ids{0, 1};
  expect_error(ErrorKind::config, {"spans.model"}, [&] { file_only.get(TokenRecord{ids, 1}); });

  TokenFileInfo foreign = info();
  foreign.tokenizer = "9999999999999999";
  TokenFileWriter writer(folder_ / "foreign.h5", foreign);
  writer.append(ids, 0);
  writer.finish("s");
  const auto unlike = std::make_shared<const TokenFile>(TokenFile::open(folder_ / "foreign.h5"));
  expect_error(ErrorKind::data, {"foreign.h5", "9999999999999999", "1111111111111111"},
               [&] { SpanSource(extracting(unlike, 0)); });
}

}  // namespace
}  // namespace fathom::data::spans
