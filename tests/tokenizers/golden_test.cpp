// Ids, byte offsets and decoded text of the published tokenizers, against the values that the
// Python package `tokenizers` gives.
#include <gtest/gtest.h>
#include <map>
#include <thread>

#include "fixtures.h"

namespace fathom::data::test {
namespace {

using nlohmann::json;

struct Family {
  std::unique_ptr<Tokenizer> tokenizer;
  json golden;
};

/// Each family is loaded once for all tests.
const Family& family(const std::string& name) {
  static std::map<std::string, Family> loaded;
  Family& one = loaded[name];
  if (!one.tokenizer) {
    const ScratchFolder folder;
    write_family(folder, name);
    one = {Tokenizer::load(folder.path()), read_json(data_file("golden/" + name + ".json"))};
  }
  return one;
}

class Golden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    strings_ = read_json(data_file("golden/strings.json")).get<std::vector<std::string>>();
    ASSERT_EQ(strings_.size(), 207u);
    ASSERT_EQ(golden_["ids"].size(), strings_.size());
  }

  const Tokenizer* tokenizer_ = family(GetParam()).tokenizer.get();
  const json& golden_ = family(GetParam()).golden;
  std::vector<std::string> strings_;
};

TEST_P(Golden, IdsAndOffsets) {
  for (std::size_t i = 0; i < strings_.size(); ++i) {
    const Encoding encoding = tokenizer_->encode(strings_[i]);
    EXPECT_EQ(json(encoding.ids), golden_["ids"][i]) << i << ": " << strings_[i];
    EXPECT_EQ(json(in_code_points(strings_[i], encoding)), golden_["offsets"][i])
        << i << ": " << strings_[i];
  }
}

TEST_P(Golden, DecodedText) {
  for (std::size_t i = 0; i < strings_.size(); ++i) {
    const auto ids = golden_["ids"][i].get<std::vector<std::int32_t>>();
    const std::string expected = golden_["decoded"].value(std::to_string(i), strings_[i]);
    EXPECT_EQ(tokenizer_->decode(ids, false), expected) << i;
  }
}

TEST_P(Golden, StreamedBytesAreTheDecodedText) {
  for (std::size_t i = 0; i < strings_.size(); ++i) {
    const auto ids = golden_["ids"][i].get<std::vector<std::int32_t>>();
    std::string streamed;
    for (const std::int32_t id : ids) streamed += tokenizer_->token_bytes(id);
    const std::string decoded = tokenizer_->decode(ids, false);
    // The SentencePiece forms take one space off the beginning of a text; a stream has none.
    EXPECT_TRUE(streamed == decoded || streamed == " " + decoded) << i << ": " << streamed;
  }
}

TEST_P(Golden, VocabularyAndConvention) {
  EXPECT_EQ(tokenizer_->vocab_size(), golden_["vocab_size"].get<std::int32_t>());
  const auto prefix = tokenizer_->prefix_ids();
  const auto suffix = tokenizer_->suffix_ids();
  EXPECT_EQ(json(std::vector(prefix.begin(), prefix.end())), golden_["prefix_ids"]);
  EXPECT_EQ(json(std::vector(suffix.begin(), suffix.end())), golden_["suffix_ids"]);
}

TEST_P(Golden, OneTokenizerServesSeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<std::vector<Encoding>> results(4);
  for (auto& result : results) {
    threads.emplace_back([&] {
      for (const std::string& text : strings_) result.push_back(tokenizer_->encode(text));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) {
    for (std::size_t i = 0; i < strings_.size(); ++i) {
      ASSERT_EQ(json(result[i].ids), golden_["ids"][i]) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Golden,
                         testing::Values("gpt2", "opt", "roberta", "qwen2", "smollm2", "tinyllama",
                                         "mistral"),
                         [](const auto& test) { return std::string(test.param); });

TEST(GoldenSpecial, BeginAndEndOfText) {
  const auto ids = [](const char* name) {
    const Tokenizer& tokenizer = *family(name).tokenizer;
    return std::pair(tokenizer.bos_id().value_or(-1), tokenizer.eos_id().value_or(-1));
  };
  EXPECT_EQ(ids("gpt2"), std::pair(50256, 50256));
  EXPECT_EQ(ids("opt"), std::pair(2, 2));
  EXPECT_EQ(ids("roberta"), std::pair(0, 2));
  EXPECT_EQ(ids("qwen2"), std::pair(-1, 151643));
  EXPECT_EQ(ids("smollm2"), std::pair(1, 2));
  EXPECT_EQ(ids("tinyllama"), std::pair(1, 2));
  EXPECT_EQ(ids("mistral"), std::pair(1, 2));
}

TEST(GoldenSpecial, SpecialTokensInTheText) {
  const Tokenizer* tokenizer = family("qwen2").tokenizer.get();
  const std::string text = "a<|im_start|>b";
  EXPECT_EQ(tokenizer->encode(text).ids, (std::vector<std::int32_t>{64, 151644, 65}));
  const Encoding plain = tokenizer->encode(text, false);
  EXPECT_GT(plain.ids.size(), 5u);
  for (const std::int32_t id : plain.ids) EXPECT_FALSE(tokenizer->is_special(id));
  EXPECT_EQ(tokenizer->decode(plain.ids, true), text);
  EXPECT_TRUE(tokenizer->is_special(151644));
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{64, 151644, 65}, true), "ab");
  EXPECT_EQ(tokenizer->token_id("<|im_start|>"), 151644);
  EXPECT_EQ(tokenizer->token_id("Ġthe"), 279);
  EXPECT_EQ(tokenizer->token_id("no such token"), std::nullopt);
}

}  // namespace
}  // namespace fathom::data::test
