// Each pipeline component in a small tokenizer of its own, against the Python package `tokenizers`
// (tests/data/tokenizers/make_components.py). The case "llama3" is Llama 3's whole rule.
#include <gtest/gtest.h>

#include "fixtures.h"

namespace fathom::data::test {
namespace {

using nlohmann::json;

const json& cases() {
  static const json all = read_json(data_file("components.json"));
  return all;
}

TEST(Components, IdsOffsetsAndText) {
  ASSERT_EQ(cases().size(), 12u);
  for (const json& one : cases()) {
    const ScratchFolder folder;
    const auto tokenizer = Tokenizer::load(folder.write("tokenizer.json", one["tokenizer"]));
    for (const json& expected : one["expected"]) {
      const auto text = expected["text"].get<std::string>();
      SCOPED_TRACE(one["name"].get<std::string>() + ": " + text);
      const Encoding encoding = tokenizer->encode(text);
      EXPECT_EQ(json(encoding.ids), expected["ids"]);
      EXPECT_EQ(json(in_code_points(text, encoding)), expected["offsets"]);
      EXPECT_EQ(tokenizer->decode(encoding.ids, false), expected["decoded"].get<std::string>());
      EXPECT_EQ(tokenizer->decode(encoding.ids, true), expected["skipped"].get<std::string>());
    }
  }
}

TEST(Components, Llama3PutsItsFirstTokenInFront) {
  const json& llama3 = cases()[0];
  ASSERT_EQ(llama3["name"], "llama3");
  const ScratchFolder folder;
  const auto tokenizer = Tokenizer::load(folder.write("tokenizer.json", llama3["tokenizer"]));
  const auto bos = tokenizer->token_id("<|begin_of_text|>");
  ASSERT_TRUE(bos.has_value());
  ASSERT_EQ(tokenizer->prefix_ids().size(), 1u);
  EXPECT_EQ(tokenizer->prefix_ids()[0], *bos);
  EXPECT_TRUE(tokenizer->suffix_ids().empty());
}

TEST(Components, WholeWordsComeBeforeMergesOnlyIfTheyShould) {
  json spec = cases()[0]["tokenizer"];
  const ScratchFolder folder;
  const auto with = Tokenizer::load(folder.write("with.json", spec));
  spec["model"]["ignore_merges"] = false;
  const auto without = Tokenizer::load(folder.write("without.json", spec));
  std::size_t different = 0;
  for (const json& expected : cases()[0]["expected"]) {
    const auto text = expected["text"].get<std::string>();
    different += with->encode(text).ids != without->encode(text).ids;
  }
  EXPECT_GT(different, 10u);
  EXPECT_NE(with->fingerprint(), without->fingerprint());
}

TEST(Components, DecodingOfBytesThatAreNoText) {
  const ScratchFolder folder;
  write_family(folder, "tinyllama");
  const auto tokenizer = Tokenizer::load(folder.path());
  const auto byte = [&](const char* name) { return tokenizer->token_id(name).value(); };
  const std::int32_t e2 = byte("<0xE2>"), x82 = byte("<0x82>"), ac = byte("<0xAC>");
  const std::int32_t a = byte("▁a");
  EXPECT_EQ(tokenizer->decode(std::vector{a, e2, x82, ac, a}, false), "a€ a");
  // As the Python package does, a run that is not whole gives one mark for each byte.
  EXPECT_EQ(tokenizer->decode(std::vector{a, e2, x82, a}, false), "a\uFFFD\uFFFD a");
  EXPECT_EQ(tokenizer->token_bytes(e2), "\xE2");
  EXPECT_EQ(tokenizer->token_bytes(a), " a");
}

TEST(Components, ByteLevelDecodingMarksEachBrokenSequenceOnce) {
  const ScratchFolder folder;
  write_family(folder, "gpt2");
  const auto tokenizer = Tokenizer::load(folder.path());
  const auto ids = tokenizer->encode("😀").ids;
  ASSERT_GE(ids.size(), 2u);
  EXPECT_EQ(tokenizer->decode(ids, false), "😀");
  EXPECT_EQ(tokenizer->decode(std::span(ids).first(ids.size() - 1), false), "\uFFFD");
}

}  // namespace
}  // namespace fathom::data::test
