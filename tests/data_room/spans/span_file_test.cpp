// Span files: what is written is read, and nothing else is.
#include "data/spans/span_file.h"

#include <thread>

#include "data/spans/crc32.h"
#include "data/spans/span_file_layout.h"
#include "tests/data_room/spans/span_fixture.h"

namespace fathom::data::spans {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(Crc32, IsThatOfZlib) {  // expected: Python's zlib.crc32(struct.pack("<3i", 1, 2, 3)) ...
  EXPECT_EQ(crc32_of({}), 0u);
  EXPECT_EQ(crc32_of(Ids{0}), 0x2144df1cu);
  EXPECT_EQ(crc32_of(Ids{1, 2, 3}), 0xb0e02293u);
  EXPECT_EQ(crc32_of(Ids{49151, -1, 2147483647}), 0x2861be1au);
}

class SpanFileTest : public test::SpanFixture {
 protected:
  /// Writes a file dataset by dataset, as somebody else might, with `edit` before it is closed.
  std::filesystem::path write_by_hand(const std::function<void(h5::File&)>& edit,
                                      const std::vector<std::uint32_t>& words = {0, 1, 2, 3}) {
    h5::File file = h5::File::create(folder_ / "hand.h5");
    file.set_attribute("/", layout::kFormat, std::string_view(layout::kFormatName));
    file.set_attribute("/", layout::kVersion, layout::kVersionNumber);
    for (const char* name : {layout::kDefinition, layout::kExtractor, layout::kModel,
                             layout::kModelSha256, layout::kTokenizer, layout::kTokens})
      file.set_attribute("/", name, std::string_view("x"));
    file.write(layout::kLengths, std::vector<std::uint32_t>{5});
    file.write(layout::kPromptLengths, std::vector<std::uint32_t>{2});
    file.write(layout::kChecksums, std::vector<std::uint32_t>{0});
    file.write(layout::kPhraseOffsets, std::vector<std::uint64_t>{0, 0});
    file.write(layout::kPhrases, {0, 2}, std::span<const std::uint32_t>());
    file.write(layout::kKinds, std::vector<std::uint8_t>{});
    file.write(layout::kWords, {words.size() / 2, 2}, std::span(words));
    edit(file);
    file.close();
    return folder_ / "hand.h5";
  }
  static void add_offsets(h5::File& file) {
    file.write(layout::kWordOffsets, std::vector<std::uint64_t>{0, 2});
  }
};

TEST_F(SpanFileTest, ReadsWhatWasWritten) {
  const auto tokens = open(random_records(300));
  const SpanFile file = SpanFile::open(write_spans(*tokens));
  file.require_made_of(*tokens);
  file.require_definition({});
  EXPECT_EQ(file.records(), 300);
  EXPECT_EQ(file.info().model, "none 1.0");
  EXPECT_EQ(file.info().extractor, "plain");
  std::int64_t words = 0, phrases = 0;
  for (std::int64_t r = 0; r < file.records(); ++r) {
    const TokenSpans spans = file.spans(r, tokens->record(r).ids);
    EXPECT_EQ(spans, expected(tokens->record(r)));
    words += std::ssize(spans.words);
    phrases += std::ssize(spans.phrases);
  }
  EXPECT_EQ(file.words(), words);
  EXPECT_EQ(file.phrases(), phrases);
  EXPECT_EQ(h5::File::open(file.path()).info(layout::kWords).type, h5::Type::u16);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "spans.h5.tmp"));
}

TEST_F(SpanFileTest, RecordsBeyond16BitsAreWidened) {
  const Ids ids(70000, 1);
  SpanFileWriter writer(folder_ / "wide.h5", {});
  const TokenSpans spans{
      {{0, 1}, {65535, 65537}, {69998, 70000}}, {{69998, 70000}}, {PhraseKind::verb}, 3};
  writer.append(ids, spans);
  writer.append(Ids{1, 2}, {});
  writer.finish();
  const SpanFile file = SpanFile::open(folder_ / "wide.h5");
  EXPECT_EQ(file.spans(0, ids), spans);
  EXPECT_EQ(file.spans(1), TokenSpans{});
}

TEST_F(SpanFileTest, NothingAppearsBeforeTheEnd) {
  {
    SpanFileWriter writer(folder_ / "part.h5", {});
    writer.append(Ids{1, 2}, {});
    EXPECT_EQ(writer.records(), 1);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  SpanFileWriter empty(folder_ / "part.h5", {});
  expect_error(ErrorKind::data, {"part.h5", "no record"}, [&] { empty.finish(); });
}

TEST_F(SpanFileTest, WriterRefusesWhatAReaderWould) {
  SpanFileWriter writer(folder_ / "x.h5", {});
  const auto refused = [&](const TokenSpans& spans, const std::vector<std::string>& parts) {
    expect_error(ErrorKind::data, parts, [&] { writer.append(Ids{1, 2, 3, 4}, spans); });
  };
  refused({{{3, 5}}, {}, {}, 0}, {"record 0", "word 0", "3 to 5", "of 4"});
  refused({{{2, 2}}, {}, {}, 0}, {"word 0"});
  refused({{{0, 2}, {1, 3}}, {}, {}, 0}, {"word 1"});
  refused({{{1, 3}}, {}, {}, 2}, {"word 0", "prompt 2"});
  refused({{}, {{0, 2}}, {}, 0}, {"0 kinds for 1 phrases"});
  refused({{}, {{0, 3}, {1, 2}}, {PhraseKind::noun, PhraseKind::noun}, 0}, {"phrase 1"});
  refused({{}, {{0, 3}, {0, 3}}, {PhraseKind::noun, PhraseKind::verb}, 0}, {"phrase 1"});
  refused({{}, {{0, 1}}, {PhraseKind{7}}, 0}, {"phrase 0", "7"});
  refused({{}, {}, {}, 5}, {"prompt length 5"});
  EXPECT_EQ(writer.records(), 0);
}

TEST_F(SpanFileTest, AnotherCorpusTokenizerOrDefinitionIsRefused) {
  auto records = random_records(20);
  const auto tokens = open(records);
  const SpanFile file = SpanFile::open(write_spans(*tokens));
  const auto refused = [&](const TokenFile& other, const std::string& what) {
    expect_error(ErrorKind::data, {"spans.h5", "other.h5", what, "fathom spans build"},
                 [&] { file.require_made_of(other); });
  };
  records[7].ids[0] ^= 1;
  refused(TokenFile::open(write(records, "other.h5")), "content");
  records.pop_back();
  refused(TokenFile::open(write(records, "other.h5")), "records 20, there 19");
  TokenFileInfo foreign = info();
  foreign.tokenizer = "9999999999999999";
  TokenFileWriter writer(folder_ / "other.h5", foreign);
  writer.append(Ids{1, 2}, 0);
  writer.finish("s");
  refused(TokenFile::open(folder_ / "other.h5"), "tokenizer 1111111111111111");
  expect_error(ErrorKind::data, {"spans.h5", "vp=pattern", "vp=group", "spans.vp"},
               [&] { file.require_definition({.verb = VerbPhrases::group}); });
  expect_error(ErrorKind::data, {"spans.h5", "words=in-phrases"},
               [&] { file.require_definition({.words = Words::in_phrases}); });
  Ids ids(tokens->record(3).ids.begin(), tokens->record(3).ids.end());
  ids.back() ^= 1;
  expect_error(ErrorKind::data, {"spans.h5", "record 3", "checksum"}, [&] { file.spans(3, ids); });
  expect_error(ErrorKind::data, {"spans.h5", "record 20", "0 to 19"}, [&] { file.spans(20); });
  expect_error(ErrorKind::data, {"spans.h5", "record -1"}, [&] { file.spans(-1); });
}

TEST_F(SpanFileTest, FilesThatAreNoSpanFiles) {
  const auto refused = [&](ErrorKind kind, const std::filesystem::path& path,
                           const std::vector<std::string>& parts) {
    expect_error(kind, parts, [&] { SpanFile::open(path); });
  };
  refused(ErrorKind::io, folder_ / "none.h5", {"none.h5", "fathom spans build"});
  const auto tokens = open(random_records(5));
  refused(ErrorKind::data, tokens->path(), {"tokens.h5", "fathom.tokens", "fathom.spans"});
  const std::filesystem::path good = write_spans(*tokens);
  std::filesystem::resize_file(good, std::filesystem::file_size(good) / 2);
  refused(ErrorKind::data, good, {"spans.h5", "truncated"});

  EXPECT_EQ(SpanFile::open(write_by_hand(add_offsets)).spans(0).words.size(), 2u);
  refused(ErrorKind::data, write_by_hand([](h5::File& file) {
            add_offsets(file);
            file.set_attribute("/", layout::kVersion, std::int64_t{2});
          }),
          {"hand.h5", "version 2", "reads 1"});
  refused(ErrorKind::data, write_by_hand([](h5::File&) {}), {"hand.h5", "word_offsets", "missing"});
  const auto offsets = [&](const std::vector<std::uint64_t>& values) {
    return write_by_hand([&](h5::File& file) { file.write(layout::kWordOffsets, values); });
  };
  refused(ErrorKind::data, offsets({0, 3}), {"hand.h5", "words", "[2, 2]"});
  refused(ErrorKind::data, offsets({1, 2}), {"hand.h5", "words"});
  refused(ErrorKind::data, offsets({0, 1, 2}), {"hand.h5", "3 and 2 offsets"});
  expect_error(ErrorKind::data, {"hand.h5", "record 0", "word 1", "2 to 9"}, [&] {
    SpanFile::open(write_by_hand(add_offsets, {0, 1, 2, 9})).spans(0);
  });
  expect_error(ErrorKind::data, {"hand.h5", "record 0", "word 0"}, [&] {
    SpanFile::open(write_by_hand(add_offsets, {4000000000u, 4000000001u, 2, 3})).spans(0);
  });
}

TEST_F(SpanFileTest, ServesSeveralThreads) {
  const auto tokens = open(random_records(64));
  const SpanFile file = SpanFile::open(write_spans(*tokens));
  std::vector<std::thread> threads;
  std::vector<int> equal(4);
  for (std::size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t r = 0; r < file.records(); ++r)
        equal[t] += file.spans(r) == expected(tokens->record(r));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(4, 64));
}

}  // namespace
}  // namespace fathom::data::spans
