// Cost of merging, counted rather than timed, and long input from end to end.
#include "data/tokenizers/bpe.h"

#include <gtest/gtest.h>
#include <random>

#include "fixtures.h"

namespace fathom::data::test {
namespace {

/// Letters a to d, and all doublings of "a" up to 2^12 as tokens.
BpeSpec doubling_spec() {
  BpeSpec spec;
  for (const char* letter : {"a", "b", "c", "d"}) spec.vocab.add(letter, spec.vocab.size(), "test");
  for (std::string run = "a"; run.size() < 4096; run += run) {
    spec.merges.emplace_back(run, run);
    spec.vocab.add(run + run, spec.vocab.size(), "test");
  }
  for (const auto& [left, right] : {std::pair("b", "c"), {"d", "bc"}, {"c", "d"}}) {
    spec.merges.emplace_back(left, right);
    spec.vocab.add(std::string(left) + right, spec.vocab.size(), "test");
  }
  return spec;
}

TEST(Bpe, WorkIsBoundedByTheLength) {
  const BpeModel model(doubling_spec(), "test");
  std::mt19937 random(1);
  std::string mixed;
  while (mixed.size() < 100000) mixed += "abcd"[random() % 4];
  for (const std::string& word : {std::string(100000, 'a'), std::string(1 << 17, 'a'), mixed}) {
    BpeModel::Scratch scratch;
    std::vector<BpeModel::Token> tokens;
    model.tokenize(word, scratch, tokens);
    // Each pair at the start, then at most two new ones for each merge.
    EXPECT_LE(scratch.candidates, 3 * word.size());
    EXPECT_GT(scratch.candidates, word.size() / 8);
    std::uint32_t at = 0;
    for (const auto& token : tokens) {
      EXPECT_EQ(token.slice.begin, at);
      at = token.slice.end;
    }
    EXPECT_EQ(at, word.size());
  }
}

TEST(Bpe, MergesByRankThenFromTheLeft) {
  const BpeModel model(doubling_spec(), "test");
  BpeModel::Scratch scratch;
  const auto lengths = [&](const std::string& word) {
    std::vector<BpeModel::Token> tokens;
    model.tokenize(word, scratch, tokens);
    std::vector<std::uint32_t> result;
    for (const auto& token : tokens) result.push_back(token.slice.end - token.slice.begin);
    return result;
  };
  EXPECT_EQ(lengths(std::string(7, 'a')), (std::vector<std::uint32_t>{4, 2, 1}));
  EXPECT_EQ(lengths("dbcd"), (std::vector<std::uint32_t>{3, 1}));
  EXPECT_EQ(lengths("dbbcd"), (std::vector<std::uint32_t>{1, 1, 2, 1}));
}

TEST(Bpe, LongInputOfEveryKind) {
  constexpr std::size_t size = 1 << 20;
  const auto repeated = [](std::string_view unit) {
    std::string text;
    while (text.size() < size) text += unit;
    return text;
  };
  for (const char* family : {"gpt2", "qwen2", "tinyllama"}) {
    const ScratchFolder folder;
    write_family(folder, family);
    const auto tokenizer = Tokenizer::load(folder.path());
    for (const char* unit : {"a", " ", "\n", " \n", "字", "😀", "1", "'", "<|", "e\u0301", "ab"}) {
      const std::string text = repeated(unit);
      const Encoding encoding = tokenizer->encode(text);
      ASSERT_FALSE(encoding.ids.empty());
      EXPECT_EQ(encoding.offsets.front().begin, 0u);
      EXPECT_GE(encoding.offsets.back().end + 2, text.size()) << family << " '" << unit << "'";
    }
  }
}

}  // namespace
}  // namespace fathom::data::test
