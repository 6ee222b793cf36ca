#include "data_tools/text/prompt_template.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fake_tokenizer.h"
#include "tests/support/expect_error.h"

namespace fathom::data_tools {
namespace {

using data::FakeTokenizer;
using nlohmann::json;
using testing::expect_error;
using Ids = std::vector<std::int32_t>;

Ids bytes(std::string_view text) {
  Ids ids;
  for (char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

Ids operator+(Ids left, const Ids& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

const json& golden() {
  static const json data = json::parse(std::ifstream(FATHOM_TEST_DATA "/text/chat.json"));
  return data;
}

std::vector<Message> messages_of(const json& list) {
  std::vector<Message> messages;
  for (const json& m : list) messages.push_back({m.at("role"), m.at("content")});
  return messages;
}

std::string text_or_empty(const json& value) {
  return value.is_null() ? std::string() : value.get<std::string>();
}

// Prompt and text of every family as transformers renders their real templates.
TEST(ChatFormats, WriteWhatTransformersWrites) {
  ASSERT_EQ(golden().at("families").size(), 7u);
  for (const json& family : golden().at("families")) {
    SCOPED_TRACE(family.at("source").get<std::string>());
    const std::string source = family.at("chat_template");
    const ChatFormat* format = recognise_chat_format(source);
    ASSERT_NE(format, nullptr);
    EXPECT_EQ(format->name, family.at("family").get<std::string>());
    const std::string system = default_system_message(source);
    for (std::size_t i = 0; i < family.at("cases").size(); ++i) {
      auto messages = messages_of(golden().at("conversations").at(i));
      if (!system.empty() && messages[0].role != "system") {
        messages.insert(messages.begin(), {"system", system});
      }
      const ChatText text = render_chat(*format, messages, text_or_empty(family.at("bos")),
                                        text_or_empty(family.at("eos")));
      EXPECT_EQ(text.prompt, family["cases"][i]["prompt"].get<std::string>());
      // transformers goes on with the separator in front of a next message.
      EXPECT_EQ(text.prompt + text.response + std::string(format->separator),
                family["cases"][i]["text"].get<std::string>());
    }
  }
}

TEST(ChatFormats, DefaultSystemMessages) {
  const auto of = [](std::size_t i) {
    return default_system_message(golden()["families"][i]["chat_template"].get<std::string>());
  };
  EXPECT_EQ(of(0), "You are a helpful AI assistant named SmolLM, trained by Hugging Face");
  EXPECT_EQ(of(1), "");
  EXPECT_EQ(of(2), "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
}

TEST(ChatFormats, VariantsAreNotMistakenForTheFamily) {
  const auto changed = [](std::size_t i, const std::string& from, const std::string& to) {
    std::string text = golden()["families"][i]["chat_template"];
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  EXPECT_EQ(recognise_chat_format(""), nullptr);
  EXPECT_EQ(recognise_chat_format("{{ messages }}"), nullptr);
  EXPECT_EQ(recognise_chat_format(changed(0, "assistant\n", "assistant\n<think>")), nullptr);
  EXPECT_EQ(recognise_chat_format(changed(3, "content.strip() + ' ' + eos", "content + ' ' + eos")),
            nullptr);
  EXPECT_EQ(recognise_chat_format(changed(4, "assistant<|end_header_id|>\n\n",
                                          "assistant<|end_header_id|>\n\nDecision:")),
            nullptr);
  EXPECT_EQ(recognise_chat_format(changed(5, "' ' + message", "message")), nullptr);
}

TEST(PromptTemplates, AlpacaAndDollyAsPublished) {
  const FakeTokenizer tokenizer;
  const PromptTemplate alpaca("alpaca", tokenizer), dolly("dolly", tokenizer);
  EXPECT_EQ(alpaca.render(InstructionExample{"Do.", "", "Done."}).prompt,
            "Below is an instruction that describes a task. Write a response that appropriately "
            "completes the request.\n\n### Instruction:\nDo.\n\n### Response:\n");
  EXPECT_EQ(alpaca.render(InstructionExample{"Do.", "This.", "Done."}).prompt,
            "Below is an instruction that describes a task, paired with an input that provides "
            "further context. Write a response that appropriately completes the request.\n\n"
            "### Instruction:\nDo.\n\n### Input:\nThis.\n\n### Response:\n");
  EXPECT_EQ(dolly.render(InstructionExample{"Do.", "This.", "Done."}).prompt,
            "Below is an instruction that describes a task. Write a response that appropriately "
            "completes the request.\n\n### Instruction:\nDo.\n\nInput:\nThis.\n\n### Response:\n");
  EXPECT_EQ(dolly.render(InstructionExample{"Do.", "This.", "Done."}).response, "Done.");
}

TEST(PromptTemplates, PlainTakesTextsAsTheyStand) {
  const FakeTokenizer tokenizer;
  const PromptTemplate plain("plain", tokenizer);
  const EncodedExample encoded = plain.encode(PromptExample{"Q:", " A"});
  EXPECT_EQ(encoded.ids, bytes("Q: A") + Ids{FakeTokenizer::kEos});
  EXPECT_EQ(encoded.prompt_length, 2);
  EXPECT_EQ(plain.render(InstructionExample{"a", "b", "c"}).prompt, "a\nb\n");
  EXPECT_EQ(plain.end_id(), FakeTokenizer::kEos);
}

TEST(PromptTemplates, AMergeAcrossTheBoundaryIsUndone) {
  const FakeTokenizer tokenizer;
  const PromptTemplate plain("plain", tokenizer);
  const EncodedExample merged = plain.encode(PromptExample{"Q\n", "\nA\n\n"});
  EXPECT_TRUE(merged.boundary_split);
  EXPECT_EQ(merged.ids, bytes("Q\n\nA") + Ids({FakeTokenizer::kDoubleBreak, FakeTokenizer::kEos}));
  EXPECT_EQ(merged.prompt_length, 2);
  const EncodedExample apart = plain.encode(PromptExample{"Q\n\n", "A"});
  EXPECT_FALSE(apart.boundary_split);
  EXPECT_EQ(apart.prompt_length, 2);
}

TEST(PromptTemplates, PrefixCountsAsPrompt) {
  FakeTokenizer tokenizer;
  tokenizer.adds_bos = true;
  const PromptTemplate plain("plain", tokenizer);
  const EncodedExample encoded = plain.encode(PromptExample{"Q", "A"});
  EXPECT_EQ(encoded.ids, Ids{FakeTokenizer::kBos} + bytes("QA") + Ids{FakeTokenizer::kEos});
  EXPECT_EQ(encoded.prompt_length, 2);
  const EncodedExample text = plain.encode(TextExample{"abc"});
  EXPECT_EQ(text.ids, Ids{FakeTokenizer::kBos} + bytes("abc") + Ids{FakeTokenizer::kEos});
  EXPECT_EQ(text.prompt_length, 0);
  const Message user[] = {{"user", "Q"}};
  EXPECT_EQ(plain.encode_prompt(user), Ids{FakeTokenizer::kBos} + bytes("Q\n"));
}

// "_" stands for 16 blanks.
std::string indented(std::string text) {
  for (std::size_t at = text.find('_'); at != text.npos; at = text.find('_'))
    text.replace(at, 1, std::string(16, ' '));
  return text;
}

// Byte for byte as LLM-Adapters' finetune.py and its evaluation scripts format them.
TEST(PromptTemplates, AlpacaWithTheBlanksOfThePublishedScripts) {
  const FakeTokenizer tokenizer;
  const std::string task = "Below is an instruction that describes a task",
                    with = ", paired with an input that provides further context",
                    write = ". Write a response that appropriately completes the request.";
  const auto prompt = [&](const char* name, const char* input) {
    return PromptTemplate(name, tokenizer).render(InstructionExample{"Do\nit", input, "r"}).prompt;
  };
  EXPECT_EQ(prompt("alpaca", ""), task + write + "\n\n### Instruction:\nDo\nit\n\n### Response:\n");
  EXPECT_EQ(prompt("alpaca_train", ""),
            task + write + indented("  \n\n_### Instruction:\n_Do\nit\n_\n_### Response:\n_"));
  EXPECT_EQ(prompt("alpaca_eval", ""),
            task + write + indented(" \n\n_### Instruction:\n_Do\nit\n\n_### Response:\n_"));
  EXPECT_EQ(prompt("alpaca_train", "x"),
            task + with + write +
                indented(" \n\n_### Instruction:\n_Do\nit\n_\n_### Input:\n_x\n_\n_### "
                         "Response:\n_"));
  EXPECT_EQ(prompt("alpaca_eval", "x"),
            task + with + write +
                indented("\n\n_### Instruction:\n_Do\nit\n\n_### Input:\n_x\n\n_### "
                         "Response:\n_"));
}

TEST(PromptTemplates, SpecialTokensOnlyWhereTheTemplateWritesThem) {
  FakeTokenizer tokenizer;
  const PromptTemplate plain("plain", tokenizer), chat("chatml", tokenizer);
  EXPECT_EQ(plain.encode(PromptExample{"<s>", "</s>"}).ids,
            bytes("<s></s>") + Ids{FakeTokenizer::kEos});
  const EncodedExample encoded = chat.encode(PromptExample{"Q", "A"});
  EXPECT_EQ(encoded.ids, Ids{FakeTokenizer::kMessageStart} + bytes("user\nQ") +
                             Ids{FakeTokenizer::kMessageEnd} + bytes("\n") +
                             Ids{FakeTokenizer::kMessageStart} + bytes("assistant\nA") +
                             Ids{FakeTokenizer::kMessageEnd});
  EXPECT_EQ(encoded.ids[static_cast<std::size_t>(encoded.prompt_length)], 'A');
  EXPECT_EQ(chat.end_id(), FakeTokenizer::kMessageEnd);
}

TEST(PromptTemplates, AutoTakesTheTokenizersFamilyAndSystemMessage) {
  FakeTokenizer tokenizer;
  tokenizer.template_text = golden()["families"][0]["chat_template"];
  const PromptTemplate chat("auto", tokenizer);
  EXPECT_EQ(chat.name(), "chatml");
  EXPECT_NE(chat.render(PromptExample{"Q", "A"}).prompt.find("named SmolLM"), std::string::npos);
  const PromptTemplate silent("auto", tokenizer, "");
  EXPECT_EQ(silent.render(PromptExample{"Q", "A"}).prompt.find("system"), std::string::npos);
  const PromptTemplate other("auto", tokenizer, "Be brief.");
  EXPECT_NE(other.render(PromptExample{"Q", "A"}).prompt.find("Be brief."), std::string::npos);
  EXPECT_NE(chat.fingerprint(), silent.fingerprint());
  EXPECT_NE(chat.fingerprint(), other.fingerprint());
  EXPECT_EQ(chat.fingerprint(), PromptTemplate("chatml", tokenizer).fingerprint());
}

TEST(PromptTemplates, EmptyResponsesEncodeToNothing) {
  const FakeTokenizer tokenizer;
  EXPECT_TRUE(PromptTemplate("plain", tokenizer).encode(PromptExample{"Q", ""}).ids.empty());
  EXPECT_TRUE(PromptTemplate("chatml", tokenizer).encode(PromptExample{"Q", ""}).ids.empty());
}

TEST(PromptTemplates, RefusesWhatDoesNotFit) {
  FakeTokenizer tokenizer;
  const auto refuse = [&](const std::string& name, const char* part) {
    expect_error(
        ErrorKind::config, [&] { PromptTemplate(name, tokenizer); }, part);
  };
  refuse("vicuna",
         "one of plain, dolly, alpaca, alpaca_train, alpaca_eval, chatml, llama2, llama3, mistral, "
         "zephyr, auto");
  refuse("auto", "is absent; choose one of plain");
  refuse("llama3", "needs the token '<|eot_id|>'");
  tokenizer.template_text = "{{ something }}";
  refuse("auto", "not of a known family");
  tokenizer.has_eos = false;
  refuse("plain", "needs an end-of-text token");
  tokenizer.has_eos = true;
  tokenizer.has_bos = false;
  refuse("llama2", "needs a begin-of-text token");
  tokenizer.has_message_tokens = false;
  refuse("chatml", "needs the token '<|im_end|>'");
  expect_error(
      ErrorKind::config, [&] { PromptTemplate("alpaca", tokenizer, "s"); },
      "no place for a system message");
  const PromptTemplate alpaca("alpaca", tokenizer);
  expect_error(
      ErrorKind::data,
      [&] {
        alpaca.encode(
            ChatExample{{{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}}});
      },
      "holds one exchange", "4 messages");
}

}  // namespace
}  // namespace fathom::data_tools
