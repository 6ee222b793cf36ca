// Span files from token files, and how they are shown and compared.
#include <atomic>

#include "data_tools/spans/build_spans.h"
#include "data_tools/spans/compare_spans.h"
#include "data_tools/spans/show_spans.h"
#include "tests/data_room/spans/span_fixture.h"

namespace fathom::data_tools {
namespace {

using data::expect_error;
using data::TokenFile;
using data::TokenRecord;
using data::spans::PhraseKind;
using data::spans::SpanFile;
using data::spans::SpanFileWriter;
using data::spans::TextSpans;
using data::spans::TokenSpans;
namespace plain = data::spans::test;

class SpanTools : public plain::SpanFixture {
 protected:
  SpanReport build(const TokenFile& tokens, const std::string& name, int threads) {
    return build_spans(tokens, *tokenizer, plain::find_each_plain, {.definition = "d"},
                       folder_ / name, threads, [](const SpanProgress&) {});
  }
  /// A span file of the given lists, one for each record of the token file.
  SpanFile file_of(const TokenFile& tokens, const std::vector<TokenSpans>& lists,
                   const std::string& name) {
    SpanFileWriter writer(folder_ / name, describe(tokens));
    for (std::size_t r = 0; r < lists.size(); ++r)
      writer.append(tokens.record(static_cast<std::int64_t>(r)).ids, lists[r]);
    writer.finish();
    return SpanFile::open(folder_ / name);
  }
};

TEST_F(SpanTools, FilesDoNotDependOnThreads) {
  const auto tokens = open(random_records(500));
  SpanReport one;
  for (const int threads : {1, 2, 7}) {
    const std::string name = "spans" + std::to_string(threads) + ".h5";
    const SpanReport report = build(*tokens, name, threads);
    if (threads == 1) one = report;
    const SpanFile file = SpanFile::open(folder_ / name);
    file.require_made_of(*tokens);
    EXPECT_EQ(file.info().definition, "d");
    for (std::int64_t r = 0; r < file.records(); ++r)
      ASSERT_EQ(file.spans(r), expected(tokens->record(r)));
    EXPECT_EQ(report.records, 500);
    EXPECT_EQ(report.words, file.words());
    EXPECT_EQ(report.noun_phrases + report.verb_phrases, file.phrases());
    EXPECT_EQ(report.verb_phrases, one.verb_phrases);
    EXPECT_TRUE(compare_spans(file, SpanFile::open(folder_ / "spans1.h5")).equal());
  }
}

TEST_F(SpanTools, ProgressRunsToTheEnd) {
  const auto tokens = open(random_records(300));
  std::vector<std::int64_t> done;
  build_spans(*tokens, *tokenizer, plain::find_each_plain, {}, folder_ / "spans.h5", 1,
              [&](const SpanProgress& progress) {
                done.push_back(progress.records);
                EXPECT_EQ(progress.all_records, 300);
              });
  EXPECT_EQ(done, (std::vector<std::int64_t>{128, 256, 300}));
}

TEST_F(SpanTools, NoFileIsLeftBehindOnAnError) {
  const auto tokens = open(random_records(10));
  const auto failing = [](std::span<const std::string_view>) -> std::vector<TextSpans> {
    fail(ErrorKind::data, "no parse today");
  };
  expect_error(ErrorKind::data, {"no parse today"},
               [&] { build_spans(*tokens, *tokenizer, failing, {}, folder_ / "spans.h5", 2, {}); });
  class Unlike : public plain::PieceTokenizer {
   public:
    using PieceTokenizer::PieceTokenizer;
    std::string fingerprint() const override { return "7777777777777777"; }
  };
  expect_error(ErrorKind::data, {"tokens.h5", "1111111111111111", "7777777777777777"}, [&] {
    build_spans(*tokens, Unlike({"x"}), plain::find_each_plain, {}, folder_ / "spans.h5", 1, {});
  });
  EXPECT_FALSE(std::filesystem::exists(folder_ / "spans.h5"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "spans.h5.tmp"));
}

TEST_F(SpanTools, ComparisonCountsAndNamesTheFirstDifference) {
  const auto tokens = open({{{0, 1, 2, 3}, 0, 0}, {{0, 1, 2, 3}, 0, 1}, {{4, 5}, 1, 2}});
  const auto noun = PhraseKind::noun, verb = PhraseKind::verb;
  const TokenSpans same{{{0, 1}, {1, 2}}, {{0, 2}, {1, 3}}, {noun, verb}, 0};
  const TokenSpans words{{{0, 1}, {1, 3}, {3, 4}}, same.phrases, same.kinds, 0};
  const TokenSpans kinds{same.words, same.phrases, {verb, verb}, 0};
  const SpanFile left = file_of(*tokens, {same, same, {{}, {}, {}, 1}}, "left.h5");
  const SpanDifference none = compare_spans(left, left);
  EXPECT_TRUE(none.equal());
  EXPECT_EQ(to_text(none), "equal\n");
  const SpanDifference some =
      compare_spans(left, file_of(*tokens, {same, words, {{}, {}, {}, 1}}, "words.h5"));
  EXPECT_FALSE(some.equal());
  EXPECT_EQ(some.records, 1);
  EXPECT_EQ(some.words_left, 1);
  EXPECT_EQ(some.words_right, 2);
  EXPECT_EQ(some.phrases_left + some.phrases_right, 0);
  EXPECT_EQ(some.first, "record 1: number 1: word [1, 2) against word [1, 3)");
  const SpanDifference other =
      compare_spans(left, file_of(*tokens, {kinds, same, {{}, {}, {}, 1}}, "kinds.h5"));
  EXPECT_EQ(other.phrases_left, 1);
  EXPECT_EQ(other.phrases_right, 1);
  EXPECT_EQ(other.first, "record 0: number 0: noun phrase [0, 2) against verb phrase [0, 2)");
  const SpanDifference prompt =
      compare_spans(left, file_of(*tokens, {same, same, {}}, "prompt.h5"));
  EXPECT_EQ(prompt.first, "record 2: prompt length or checksum of the ids");
  EXPECT_FALSE(prompt.equal());
  const auto shorter = TokenFile::open(write({{{0, 1}, 0, 0}}, "short.h5"));
  const SpanFile foreign = file_of(shorter, {{}}, "foreign.h5");
  expect_error(ErrorKind::data, {"left.h5", "foreign.h5", "3 records"},
               [&] { compare_spans(left, foreign); });
  EXPECT_NE(describe_span_file(left).find("3 records, 10 tokens, longest 4"), std::string::npos);
}

TEST(ShowSpans, BracketsAndColours) {
  const TextSpans spans{{{0, 1}, {2, 5}, {6, 9}},
                        {{{0, 5}, PhraseKind::noun}, {{2, 9}, PhraseKind::verb}}};
  const std::string text = "a dog ran.\n";
  EXPECT_EQ(show_spans(text, spans, false),
            "words    a|dog|ran\n"
            "phrases  [a {dog] ran}.\n\n"
            "         [noun phrase] {verb phrase}\n");
  const std::string colour = show_spans(text, spans, true);
  EXPECT_NE(colour.find("\033[1;32ma \033[1;33mdog\033[0m\033[1;33m ran\033[0m.\n"),
            std::string::npos)
      << colour;
  EXPECT_EQ(colour.find('['), colour.find("[1;32m")) << "no brackets beside colours";
  EXPECT_EQ(show_spans("\033[2J", {{{0, 4}}, {}}, false).find('\033'), std::string::npos);
}

TEST(ShowSpans, TokensAndIds) {
  const plain::PieceTokenizer tokenizer({"the", " dog", " ran", ".\n"});
  const std::vector<std::int32_t> ids{0, 1, 2, 3};
  const TokenSpans spans{{}, {{0, 2}, {2, 3}}, {PhraseKind::noun, PhraseKind::verb}, 0};
  EXPECT_EQ(show_token_spans(tokenizer, ids, spans, false),
            "tokens   the| dog| ran|.\\n\n"
            "         [the dog]  ids [0, 2)\n"
            "         { ran}  ids [2, 3)\n");
}

}  // namespace
}  // namespace fathom::data_tools
