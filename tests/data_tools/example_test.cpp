#include "data_tools/text/example.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace fathom::data_tools {
namespace {

using testing::expect_error;

template <typename T>
T only(std::string_view line) {
  const auto examples = parse_examples(line);
  EXPECT_EQ(examples.size(), 1u);
  return std::get<T>(examples.at(0));
}

void expect_instruction(std::string_view line, const std::string& instruction,
                        const std::string& input, const std::string& response) {
  const auto example = only<InstructionExample>(line);
  EXPECT_EQ(example.instruction, instruction);
  EXPECT_EQ(example.input, input);
  EXPECT_EQ(example.response, response);
}

TEST(Examples, AlpacaDollyAndTheirKin) {
  expect_instruction(R"({"instruction": "a", "input": "b", "output": "c"})", "a", "b", "c");
  expect_instruction(R"({"instruction": "a", "input": "", "output": "c", "answer": "d"})", "a", "",
                     "c");
  expect_instruction(R"({"instruction": "a", "context": "b", "response": "c", "category": "x"})",
                     "a", "b", "c");
  expect_instruction(R"({"instruction": "a", "response": "c"})", "a", "", "c");
  expect_instruction(R"({"instruction": "a", "input": null, "output": "c"})", "a", "", "c");
  expect_instruction(R"({"question": "a", "answer": "c"})", "a", "", "c");
  expect_instruction(R"({"instruction": "a", "output": ["first", "second"]})", "a", "", "first");
  expect_instruction(R"({"prompt": "templated", "instruction": "a", "output": "c"})", "a", "", "c");
}

TEST(Examples, SelfInstructGivesOneForEachInstance) {
  const auto examples = parse_examples(
      R"({"instruction": "a", "instances": [{"input": "", "output": "c"},
          {"input": "d", "output": "e"}]})");
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(std::get<InstructionExample>(examples[1]).instruction, "a");
  EXPECT_EQ(std::get<InstructionExample>(examples[1]).input, "d");
  EXPECT_EQ(std::get<InstructionExample>(examples[1]).response, "e");
}

TEST(Examples, PromptsTextsAndConversations) {
  EXPECT_EQ(only<PromptExample>(R"({"prompt": "p", "completion": "r"})").response, "r");
  EXPECT_EQ(only<PromptExample>(R"({"prompt": "p", "response": "r"})").prompt, "p");
  EXPECT_EQ(only<TextExample>(R"({"text": "t\u00e9"})").text, "t\xC3\xA9");
  const auto chat = only<ChatExample>(
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"},
          {"role": "assistant", "content": "a"}]})");
  ASSERT_EQ(chat.messages.size(), 3u);
  EXPECT_EQ(chat.messages[2].role, "assistant");
  EXPECT_EQ(chat.messages[2].content, "a");
}

void expect_refused(const std::string& line, const std::string& part) {
  expect_error(
      ErrorKind::data, [&] { parse_examples(line); }, part);
}

TEST(Examples, FaultsAreNamed) {
  expect_refused(R"({"instruction": "a")", "malformed JSON");
  expect_refused("{\"text\": \"\xff\"}", "malformed JSON");
  expect_refused(R"({"text": "\ud800"})", "malformed JSON");
  expect_refused("[", "one object a line");
  expect_refused(R"([{"text": "a"}])", "jq -c");
  expect_refused("3", "a JSON number");
  expect_refused(R"({"title": "a"})", "no field 'messages'");
  expect_refused(R"({"instruction": "a"})", "'output' or 'response' is missing");
  expect_refused(R"({"instruction": 1, "output": "c"})", "'instruction' is a number");
  expect_refused(R"({"instruction": "a", "output": []})", "'output' is an empty list");
  expect_refused(R"({"instruction": "a", "instances": "x"})", "'instances' is a string");
  expect_refused(R"({"instruction": "a", "instances": [{"input": ""}]})", "'output' is missing");
  expect_refused(R"({"prompt": "a"})", "'response' or 'completion' or 'output' is missing");
  expect_refused(R"({"messages": [{"role": "user"}]})", "'content' is missing");
  expect_refused(R"({"messages": []})", "a conversation of 0 messages");
  expect_refused(R"({"messages": [{"role": "user", "content": "u"}]})", "1 messages");
  expect_refused(R"({"messages": [{"role": "tool", "content": "u"}]})", "role 'tool'; 'user'");
  expect_refused(R"({"messages": [{"role": "user", "content": "u"},
                                  {"role": "user", "content": "u"}]})",
                 "message 1 has role 'user'; 'assistant'");
}

}  // namespace
}  // namespace fathom::data_tools
