// Text to token file with the tokenizers of real models, against ids that transformers gave.
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data_tools/text/prompt_template.h"
#include "data_tools/text/tokenize.h"
#include "tests/support/temporary_directory.h"
#include "tests/tokenizers/fixtures.h"

namespace fathom::data_tools {
namespace {

using data::TokenFile;
using data::Tokenizer;
using nlohmann::json;
using Ids = std::vector<std::int32_t>;

std::unique_ptr<Tokenizer> load(const data::test::ScratchFolder& folder,
                                const std::string& family) {
  data::test::write_family(folder, family);
  return Tokenizer::load(folder.path());
}

std::vector<Message> messages_of(const json& list) {
  std::vector<Message> messages;
  for (const json& m : list) messages.push_back({m.at("role"), m.at("content")});
  return messages;
}

// Ids of the line break that transformers puts behind the end of the last message and we do not;
// after a special token SentencePiece writes it as "▁" and the byte.
std::size_t separator_ids(const std::string& family) {
  return family == "chatml" ? 1 : family == "zephyr" ? 2 : 0;
}

TEST(RealTokenizers, ConversationsHaveTheIdsOfTransformers) {
  const json golden = json::parse(std::ifstream(FATHOM_TEST_DATA "/text/chat.json"));
  std::size_t compared = 0;
  for (const json& family : golden.at("families")) {
    if (family.at("tokenizer").is_null()) continue;
    SCOPED_TRACE(family.at("source").get<std::string>());
    const data::test::ScratchFolder folder;
    const auto tokenizer = load(folder, family.at("tokenizer"));
    const std::string name = family.at("family");
    const PromptTemplate prompt_template(name, *tokenizer);
    for (std::size_t i = 0; i < family.at("cases").size(); ++i) {
      const auto messages = messages_of(golden.at("conversations").at(i));
      const json& expected = family["cases"][i];
      Ids ids = expected.at("ids");
      ids.resize(ids.size() - separator_ids(name));
      const EncodedExample encoded = prompt_template.encode(ChatExample{messages});
      EXPECT_EQ(encoded.ids, ids);
      EXPECT_EQ(encoded.ids.back(), prompt_template.end_id());
      const Ids prompt = expected.at("prompt_ids");
      EXPECT_EQ(static_cast<std::size_t>(encoded.prompt_length), prompt.size());
      EXPECT_EQ(prompt_template.encode_prompt(std::span(messages).first(messages.size() - 1)),
                prompt);
      EXPECT_FALSE(encoded.boundary_split);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 5u * 4u);
}

TEST(RealTokenizers, AutoKnowsTheModelsOwnTemplates) {
  for (const char* family : {"smollm2", "qwen2"}) {
    const data::test::ScratchFolder folder;
    EXPECT_EQ(PromptTemplate("auto", *load(folder, family)).name(), "chatml") << family;
  }
}

// The shipped sample, as the quickstart reads it.
TEST(RealTokenizers, TheDollySampleBecomesATokenFile) {
  const data::test::ScratchFolder model;
  const testing::TemporaryDirectory folder;
  const auto tokenizer = load(model, "smollm2");
  TokenizeOptions options;
  options.inputs = {FATHOM_SOURCE_DIR "/data_tools/samples/dolly.jsonl"};
  options.output = folder / "train.h5";
  options.eval_output = folder / "eval.h5";
  options.eval_first = 100;
  const TokenizeReport report = tokenize(options, *tokenizer);
  EXPECT_EQ(report.template_name, "chatml");
  EXPECT_EQ(report.train.records, 1400);
  EXPECT_EQ(report.eval->records, 100);
  EXPECT_EQ(report.boundary_split, 0);

  const TokenFile train = TokenFile::open(options.output);
  EXPECT_EQ(train.info().tokenizer, tokenizer->fingerprint());
  EXPECT_EQ(train.info().vocab_size, 49152);
  const TokenFile eval = TokenFile::open(options.eval_output);
  const auto record = eval.record(0);
  const auto prompt = static_cast<std::size_t>(record.prompt_length);
  EXPECT_EQ(tokenizer->decode(record.ids.first(prompt), false),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n<|im_start|>user\nWhen did Virgin Australia start operating?"
            "<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(tokenizer->decode(record.ids.subspan(prompt), false),
            "Virgin Australia commenced services on 31 August 2000 as Virgin Blue, with two "
            "aircraft on a single route.<|im_end|>");
}

// Pieces and threads leave no trace: the ids are those of the whole text encoded at once.
TEST(RealTokenizers, TinyShakespeareInBlocksIsTheWholeText) {
  const data::test::ScratchFolder model;
  const testing::TemporaryDirectory folder;
  const auto tokenizer = load(model, "gpt2");
  const std::string path = FATHOM_SOURCE_DIR "/data_tools/samples/tinyshakespeare.txt";
  TokenizeOptions options;
  options.inputs = {path};
  options.output = folder / "train.h5";
  options.block = 256;
  tokenize(options, *tokenizer);

  Ids expected = tokenizer->encode(data::test::read_bytes(path), false).ids;
  expected.push_back(*tokenizer->eos_id());
  EXPECT_EQ(expected.size(), 338025u + 1);  // the count that GPT-2's own tokenizer gives
  const TokenFile train = TokenFile::open(options.output);
  Ids joined{train.record(0).ids[0]};
  for (std::int64_t r = 0; r < train.records(); ++r) {
    const auto ids = train.record(r).ids;
    EXPECT_LE(ids.size(), 257u);
    EXPECT_EQ(ids[0], joined.back());
    joined.insert(joined.end(), ids.begin() + 1, ids.end());
  }
  EXPECT_EQ(joined, expected);
}

}  // namespace
}  // namespace fathom::data_tools
