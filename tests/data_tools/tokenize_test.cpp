#include "data_tools/text/tokenize.h"

#include <fstream>
#include <gtest/gtest.h>
#include <set>

#include "data_tools/text/document_reader.h"
#include "fake_tokenizer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace fathom::data_tools {
namespace {

using data::FakeTokenizer;
using data::TokenFile;
using testing::expect_error;

class Tokenize : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  TokenizeOptions options(const std::filesystem::path& input) {
    TokenizeOptions result;
    result.inputs = {input};
    result.output = folder_ / "out.h5";
    result.template_name = "plain";
    result.threads = 2;
    return result;
  }
  TokenizeReport run(const TokenizeOptions& o) { return tokenize(o, tokenizer_); }
  void expect_refused(ErrorKind kind, const TokenizeOptions& o, const std::string& part,
                      const std::string& other = "") {
    expect_error(
        kind, [&] { run(o); }, part, other);
    EXPECT_FALSE(std::filesystem::exists(o.output));
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
    }
  }
  static std::string text_of(const TokenFile& file, std::int64_t record) {
    return FakeTokenizer().decode(file.record(record).ids, false);
  }

  testing::TemporaryDirectory folder_;
  FakeTokenizer tokenizer_;
};

constexpr const char* kJson =
    "{\"prompt\": \"a\", \"response\": \"bc\"}\n"
    "\n"
    "{\"instruction\": \"d\", \"instances\": [{\"input\": \"\", \"output\": \"e\"}, "
    "{\"input\": \"f\", \"output\": \"\"}]}\r\n"
    "{\"text\": \"g\"}";

TEST_F(Tokenize, JsonLines) {
  const TokenizeReport report = run(options(file("a.jsonl", kJson)));
  EXPECT_EQ(report.lines, 3);
  EXPECT_EQ(report.examples, 4);
  EXPECT_EQ(report.empty, 1);
  EXPECT_EQ(report.train.records, 3);
  const TokenFile out = TokenFile::open(folder_ / "out.h5");
  ASSERT_EQ(out.records(), 3);
  EXPECT_EQ(text_of(out, 0), "abc</s>");
  EXPECT_EQ(out.prompt_length(0), 1);
  EXPECT_EQ(text_of(out, 1), "d\ne</s>");
  EXPECT_EQ(out.prompt_length(1), 2);
  EXPECT_EQ(out.source(1), 1);
  EXPECT_EQ(text_of(out, 2), "g</s>");
  EXPECT_EQ(out.prompt_length(2), 0);
  EXPECT_EQ(out.source(2), 2);
  EXPECT_EQ(out.info().content, report.train.fingerprint);
  EXPECT_EQ(out.info().template_name, "plain");
  EXPECT_EQ(out.info().eos_id, FakeTokenizer::kEos);
  EXPECT_EQ(out.info().tokenizer, "0123456789abcdef");
  EXPECT_EQ(out.info().source, data::fingerprint_of(kJson));
  EXPECT_EQ(report.train.label_tokens, 3 + 2 + 1);
  EXPECT_EQ(report.lengths, (std::vector<std::int32_t>{2, 4, 4}));
}

TEST_F(Tokenize, SeveralFilesAreOneSource) {
  TokenizeOptions o = options(file("a.jsonl", "{\"text\": \"a\"}\n"));
  o.inputs.push_back(file("b.jsonl", "\xEF\xBB\xBF{\"text\": \"b\"}\n"));
  run(o);
  const TokenFile out = TokenFile::open(o.output);
  ASSERT_EQ(out.records(), 2);
  EXPECT_EQ(text_of(out, 1), "b</s>");
  EXPECT_EQ(out.source(1), 1);
}

TEST_F(Tokenize, ThreadsDoNotChangeTheResult) {
  std::string lines;
  for (int i = 0; i < 20000; ++i) {
    lines += str("{\"prompt\": \"", i, "\", \"response\": \"", i * 7, "\"}\n");
  }
  TokenizeOptions o = options(file("a.jsonl", lines));
  o.eval_output = folder_ / "eval.h5";
  o.eval_fraction = 0.1;
  o.threads = 1;
  const TokenizeReport one = run(o);
  o.threads = 4;
  const TokenizeReport four = run(o);
  EXPECT_EQ(one.train.fingerprint, four.train.fingerprint);
  EXPECT_EQ(one.eval->fingerprint, four.eval->fingerprint);
  EXPECT_EQ(one.train.records + one.eval->records, 20000);
  EXPECT_NEAR(static_cast<double>(one.eval->records), 2000, 200);
  o.seed = 2;
  EXPECT_NE(run(o).eval->fingerprint, one.eval->fingerprint);
}

TEST_F(Tokenize, TheFirstLinesAreHeldOutTogetherWithAllTheirInstances) {
  std::string lines;
  for (int i = 0; i < 5; ++i) {
    lines +=
        "{\"instruction\": \"i\", \"instances\": [{\"output\": \"a\"}, {\"output\": \"b\"}]}\n";
  }
  TokenizeOptions o = options(file("a.jsonl", lines));
  o.eval_output = folder_ / "eval.h5";
  o.eval_first = 2;
  const TokenizeReport report = run(o);
  EXPECT_EQ(report.train.records, 6);
  ASSERT_TRUE(report.eval);
  EXPECT_EQ(report.eval->records, 4);
  const TokenFile eval = TokenFile::open(o.eval_output);
  EXPECT_EQ(eval.source(3), 1);
  EXPECT_EQ(TokenFile::open(o.output).source(0), 2);
}

TEST_F(Tokenize, OverlongRecordsFollowThePolicy) {
  const std::string lines =
      "{\"prompt\": \"ab\", \"response\": \"cdef\"}\n"
      "{\"prompt\": \"abcd\", \"response\": \"e\"}\n"
      "{\"prompt\": \"a\", \"response\": \"b\"}\n";
  TokenizeOptions o = options(file("a.jsonl", lines));
  o.context = 3;
  expect_refused(ErrorKind::data, o, "a.jsonl:1", "6 positions, the context has 3");
  o.overlong = data::Overlong::skip;
  TokenizeReport report = run(o);
  EXPECT_EQ(report.skipped, 2);
  EXPECT_EQ(report.train.records, 1);
  o.overlong = data::Overlong::truncate;
  report = run(o);
  EXPECT_EQ(report.truncated, 1);
  EXPECT_EQ(report.unlabelled, 1);
  EXPECT_EQ(text_of(TokenFile::open(o.output), 0), "abcd");
}

TEST_F(Tokenize, ATextFileIsOneDocument) {
  const std::string text = "One.\n\nTwo.\r\nThree\n";
  run(options(file("a.txt", text)));
  const TokenFile out = TokenFile::open(folder_ / "out.h5");
  ASSERT_EQ(out.records(), 1);
  EXPECT_EQ(text_of(out, 0), text + "</s>");
  EXPECT_EQ(out.prompt_length(0), 0);
  EXPECT_EQ(out.source(0), 0);
  EXPECT_EQ(out.info().template_name, "text");
}

TEST_F(Tokenize, DocumentsAreSplitAtTheDelimiter) {
  tokenizer_.adds_bos = true;
  TokenizeOptions o = options(file("a.txt", "One.\nMore.\n\n \n\nTwo.\n"));
  o.delimiter = "";
  run(o);
  const TokenFile out = TokenFile::open(o.output);
  ASSERT_EQ(out.records(), 2);
  EXPECT_EQ(text_of(out, 0), "<s>One.\nMore.</s>");
  EXPECT_EQ(text_of(out, 1), "<s>Two.</s>");
  o = options(file("b.txt", "One.\n\n***\r\n***\nTwo."));
  o.delimiter = "***";
  run(o);
  EXPECT_EQ(text_of(TokenFile::open(o.output), 0), "<s>One.\n</s>");
  EXPECT_EQ(text_of(TokenFile::open(o.output), 1), "<s>Two.</s>");
}

TEST_F(Tokenize, BlocksHoldEveryTokenAndOverlapByOne) {
  TokenizeOptions o = options(file("a.txt", "abcdef\n\nghij\n\nk"));
  o.delimiter = "";
  o.block = 4;
  const TokenizeReport report = run(o);
  const TokenFile out = TokenFile::open(o.output);
  EXPECT_EQ(out.info().block, 4);
  ASSERT_EQ(out.records(), 4);
  EXPECT_EQ(text_of(out, 0), "abcde");
  EXPECT_EQ(text_of(out, 1), "ef</s>gh");
  EXPECT_EQ(text_of(out, 2), "hij</s>k");
  EXPECT_EQ(text_of(out, 3), "k</s>");
  EXPECT_EQ(report.train.label_tokens, 6 + 1 + 4 + 1 + 1 + 1 - 1);
  EXPECT_EQ(out.source(0), -1);
}

TEST_F(Tokenize, TextsInJsonCanBeJoinedToo) {
  TokenizeOptions o = options(file("a.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"de\"}\n"));
  o.block = 10;
  run(o);
  EXPECT_EQ(text_of(TokenFile::open(o.output), 0), "abc</s>de</s>");
  o.inputs = {file("b.jsonl", kJson)};
  o.output = folder_ / "other.h5";
  expect_refused(ErrorKind::data, o, "b.jsonl:1", "only records with a 'text'");
}

TEST_F(Tokenize, LongDocumentsComeInPiecesWithTheSameIds) {
  std::string text;
  for (int i = 0; text.size() < (std::size_t{1} << 20); ++i) {
    text += str("Line ", i, i % 3 == 0 ? ".\n\n" : i % 3 == 1 ? " \n" : "\n");
  }
  run(options(file("a.txt", text)));
  const TokenFile out = TokenFile::open(folder_ / "out.h5");
  ASSERT_EQ(out.records(), 1);
  auto expected = tokenizer_.encode(text, false).ids;
  expected.push_back(FakeTokenizer::kEos);
  const auto ids = out.record(0).ids;
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), expected.begin(), expected.end()));
}

TEST_F(Tokenize, PiecesAreCutOnlyBetweenPrintableCharacters) {
  data::Fingerprint hash;
  LineReader lines(file("a.txt", "aa\n\nbb\n cc\ndd \nee\nff\n"), hash);
  std::vector<std::string> pieces;
  std::vector<std::int64_t> numbers;
  read_documents(lines, std::nullopt, 1, [&](DocumentPiece piece) {
    EXPECT_EQ(piece.begins, pieces.empty());
    pieces.push_back(piece.text);
    numbers.push_back(piece.line);
  });
  EXPECT_EQ(pieces, (std::vector<std::string>{"aa\n\nbb\n cc\n", "dd \nee\n", "ff\n"}));
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{1, 5, 7}));
}

TEST_F(Tokenize, BadInputNamesFileAndLine) {
  const auto json = [&](const std::string& text) { return options(file("bad.jsonl", text)); };
  const auto text = [&](const std::string& t) { return options(file("bad.txt", t)); };
  expect_refused(ErrorKind::data, json("{\"text\": \"a\"}\n{\"text\": \n"),
                 "bad.jsonl:2: malformed");
  expect_refused(ErrorKind::data, json("{\"text\": \"\xC3\x28\"}"), "bad.jsonl:1: malformed");
  expect_refused(ErrorKind::data, json("\n\n{\"name\": 1}"), "bad.jsonl:3: no field");
  expect_refused(ErrorKind::data, json("{\"prompt\": \"a\"}"), "bad.jsonl:1: field 'response'");
  expect_refused(ErrorKind::data, json(""), "no record to write");
  expect_refused(ErrorKind::data, json("{\"prompt\": \"a\", \"response\": \"\"}"), "1 empty");
  expect_refused(ErrorKind::data, text("ok\nfa\xFFil\n"), "bad.txt:2: invalid UTF-8 at byte 2");
  expect_refused(ErrorKind::data, text("\xED\xA0\x80"), "bad.txt:1: invalid UTF-8 at byte 0");
  expect_refused(ErrorKind::data, text(" \n\n"), "no record to write");
  expect_refused(ErrorKind::io, options(folder_ / "absent.txt"), "absent.txt: No such file");
  expect_refused(ErrorKind::io, options(folder_.path()), "is a folder");
}

TEST_F(Tokenize, OptionsThatContradictEachOtherAreRefused) {
  const TokenizeOptions good = options(file("a.jsonl", kJson));
  const auto refuse = [&](const std::string& part, const auto& change) {
    TokenizeOptions o = good;
    change(o);
    expect_refused(ErrorKind::config, o, part);
  };
  refuse("no input file", [](auto& o) { o.inputs.clear(); });
  refuse("belong together", [](auto& o) { o.eval_first = 1; });
  refuse("belong together", [&](auto& o) { o.eval_output = folder_ / "e.h5"; });
  refuse("choose one", [&](auto& o) {
    o.eval_output = folder_ / "e.h5";
    o.eval_first = 1;
    o.eval_fraction = 0.5;
  });
  refuse("below 1", [](auto& o) { o.eval_fraction = 1.0; });
  refuse("different files", [](auto& o) {
    o.eval_output = o.output;
    o.eval_first = 1;
  });
  refuse("at once", [&](auto& o) { o.inputs.push_back(file("b.txt", "b")); });
  refuse("delimiter is for plain text", [](auto& o) { o.delimiter = ""; });
  refuse("none may be negative", [](auto& o) { o.block = -1; });
  refuse("template 'x'", [](auto& o) { o.template_name = "x"; });
  TokenizeOptions all = good;
  all.eval_output = folder_ / "e.h5";
  all.eval_first = 100;
  expect_refused(ErrorKind::data, all, "none is left to train on");
}

TEST_F(Tokenize, TheReportReadsWell) {
  const std::string text = to_text(run(options(file("a.jsonl", kJson))));
  EXPECT_NE(text.find("3 lines, 4 examples, template plain"), std::string::npos) << text;
  EXPECT_NE(text.find("1 left out: no response"), std::string::npos) << text;
  EXPECT_NE(text.find("tokens a record: median 4, 90 % 4, 99 % 4, longest 4"), std::string::npos)
      << text;
  EXPECT_NE(text.find("out.h5: 3 records, 10 tokens, 6 of them labels"), std::string::npos) << text;
}

}  // namespace
}  // namespace fathom::data_tools
