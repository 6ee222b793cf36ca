#include "data_tools/text/question.h"

#include <gtest/gtest.h>

#include "core/files.h"
#include "data_tools/text/prompt_template.h"
#include "data_tools/text/question_prompts.h"
#include "fake_tokenizer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace fathom::data_tools {
namespace {

using data::FakeTokenizer;
using testing::expect_error;
using Texts = std::vector<std::string>;

Question one(const std::string& record) {
  const auto questions = parse_questions(record);
  EXPECT_EQ(questions.size(), 1u) << record;
  return questions.at(0);
}

TEST(Questions, OfEveryForm) {
  const Question dolly = one(R"({"instruction": "Sort.", "context": "b a", "response": "a b"})");
  EXPECT_EQ(dolly.text, "Sort.\n\nb a");
  EXPECT_EQ(dolly.references, Texts{"a b"});
  EXPECT_EQ(dolly.prompt, std::nullopt);

  const Question published = one(
      R"({"id": "x", "instruction": "Sort.", "input": "", "output": ["a", "b"],
          "prompt": "Below<n><n>### Sort."})");
  EXPECT_EQ(published.id, "x");
  EXPECT_EQ(published.text, "Sort.");
  EXPECT_EQ(published.prompt, "Below\n\n### Sort.");
  EXPECT_EQ(published.references, (Texts{"a", "b"}));

  const Question vicuna = one(R"({"question_id": 7, "category": "generic", "turns": ["Why?"]})");
  EXPECT_EQ(vicuna.id, "7");
  EXPECT_EQ(vicuna.text, "Why?");
  EXPECT_TRUE(vicuna.references.empty());
  EXPECT_TRUE(vicuna.later.empty());
  const Question mtbench =
      one(R"({"question_id": 101, "turns": ["Where?", "And if<n>so?"], "reference": ["a", "b"]})");
  EXPECT_EQ(mtbench.text, "Where?");
  EXPECT_EQ(mtbench.references, Texts{"a"});
  ASSERT_EQ(mtbench.later.size(), 1u);
  EXPECT_EQ(mtbench.later[0].text, "And if\nso?");
  EXPECT_EQ(mtbench.later[0].references, Texts{"b"});
  const Question half = one(R"({"turns": ["Where?", "Why?"], "reference": ["", "b"]})");
  EXPECT_TRUE(half.references.empty());
  EXPECT_EQ(half.later.at(0).references, Texts{"b"});

  EXPECT_EQ(one(R"({"question": "2+2?", "answer": "4"})").references, Texts{"4"});
  const Question labelled = one(
      R"({"instruction": "2+2?", "input": "", "output": "", "answer": "4.0", "task": "SVAMP"})");
  EXPECT_EQ(labelled.references, Texts{"4.0"}) << "an empty text is no reference";
  EXPECT_EQ(labelled.label, "4.0");
  EXPECT_EQ(labelled.task, "SVAMP");
  EXPECT_EQ(one(R"({"instruction": "a", "answer": ["b"], "task": 3})").label, "");
  EXPECT_EQ(one(R"({"prompt": "Once", "completion": "upon<n>a"})").references, Texts{"upon\na"});
  const Question chat = one(
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]})");
  EXPECT_EQ(chat.text, "Hi");
  EXPECT_EQ(chat.references, Texts{"Ho"});
}

// The questions that are shipped: 80 conversations of two turns each, under their published
// numbers.
TEST(Questions, OfMtBench) {
  const auto questions = read_questions(FATHOM_SOURCE_DIR "/data_tools/samples/mtbench.jsonl");
  ASSERT_EQ(questions.size(), 80u);
  std::size_t with_reference = 0;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Question& question = questions[i];
    EXPECT_EQ(question.id, std::to_string(81 + i));
    EXPECT_FALSE(question.text.empty()) << question.id;
    ASSERT_EQ(question.later.size(), 1u) << question.id;
    EXPECT_FALSE(question.later[0].text.empty()) << question.id;
    with_reference += !question.references.empty() || !question.later[0].references.empty();
  }
  EXPECT_EQ(with_reference, 39u) << "some of one turn alone";
}

TEST(Questions, OfTasksWithInstances) {
  const auto self_instruct = parse_questions(
      R"({"id": "task_0", "instruction": "Reply.", "instances": [{"input": "a", "output": "b"}]})");
  ASSERT_EQ(self_instruct.size(), 1u);
  EXPECT_EQ(self_instruct[0].id, "task_0");
  EXPECT_EQ(self_instruct[0].text, "Reply.\n\na");

  const auto natural = parse_questions(
      R"({"Definition": ["Turn."], "Instances": [{"id": "t-1", "input": "l", "output": ["L"]},
          {"input": "r", "output": ["R", "RIGHT"]}], "id": "t"})");
  ASSERT_EQ(natural.size(), 2u);
  EXPECT_EQ(natural[0].id, "t-1");
  EXPECT_EQ(natural[1].id, "t/1");
  EXPECT_EQ(natural[1].text, "Turn.\n\nr");
  EXPECT_EQ(natural[1].references, (Texts{"R", "RIGHT"}));
}

TEST(Questions, RefuseWhatTheyCannotRead) {
  const auto refused = [](const char* record, const char* part) {
    expect_error(
        ErrorKind::data, [&] { parse_questions(record); }, part);
  };
  refused("{", "malformed JSON");
  refused("[1]", "one object a line");
  refused(R"({"text": "a"})", "no field");
  refused(R"({"instruction": 3})", "'instruction' is a number");
  refused(R"({"instruction": "a", "output": [3]})", "'output' is a number");
  refused(R"({"turns": "a"})", "'turns' is not a list of texts");
  refused(R"({"turns": []})", "'turns' is not a list of texts");
  refused(R"({"turns": ["a", "b"], "reference": ["c"]})", "1 texts for 2 turns");
  refused(R"({"Definition": ["a", "b"], "Instances": []})", "a list of 2");
  refused(R"({"instruction": "a", "id": 1.5})", "'id' is a number");
}

class QuestionFile : public ::testing::Test {
 protected:
  std::vector<Question> read(const std::string& name, const std::string& text) {
    files::write_text_atomically(folder_ / name, text);
    return read_questions(folder_ / name);
  }
  testing::TemporaryDirectory folder_;
};

TEST_F(QuestionFile, NumbersRecordsWithoutAnId) {
  const auto lines = read("a.jsonl", "{\"question\": \"a\"}\n\n{\"question\": \"b\"}\n");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].id, "1");
  EXPECT_EQ(lines[1].id, "3") << "the line";
  const auto whole = read("a.json", R"([{"question": "a"},
    {"Definition": "d", "Instances": [{"input": "x"}, {"input": "y"}]}])");
  ASSERT_EQ(whole.size(), 3u);
  EXPECT_EQ(whole[0].id, "1");
  EXPECT_EQ(whole[2].id, "2/1");
}

TEST_F(QuestionFile, NamesTheLineOfAnError) {
  const auto refused = [this](const std::string& name, const std::string& text,
                              const auto&... parts) {
    expect_error(
        ErrorKind::data, [&] { read(name, text); }, parts...);
  };
  const std::string good = "{\"id\": 1, \"question\": \"a\"}\n";
  refused("a.jsonl", good + "{\"question\": \"a\"", "a.jsonl:2", "malformed JSON");
  refused("a.jsonl", good + good, "a.jsonl:2", "'1'", "a.jsonl:1");
  refused("a.jsonl", "\n{\"question\": \"a\", \"answer\": \" \"}", "a.jsonl:2", "empty reference");
  refused("a.jsonl", "\n", "a.jsonl", "no question");
  refused("a.json", "[{\"question\": \"a\"}, 3]", "a.json: record 2", "number");
  refused("a.json", "[", "a.json", "malformed JSON");
  expect_error(
      ErrorKind::io, [this] { read_questions(folder_ / "nowhere"); }, "nowhere");
}

std::string text_of(const std::vector<std::int32_t>& ids) {
  return FakeTokenizer().decode(ids, false);
}

TEST(QuestionPrompts, AreTheBeginningOfWhatTrainingReads) {
  const FakeTokenizer tokenizer;
  const InstructionExample example{"Sort.", "b a", "a b"};
  for (const char* name : {"plain", "alpaca", "alpaca_train", "dolly", "chatml"}) {
    const PromptTemplate form(name, tokenizer);
    const EncodedExample whole = form.encode(example);
    const auto prompts = encode_questions({{.id = "1",
                                            .text = "",
                                            .example = InstructionExample{"Sort.", "b a", ""},
                                            .prompt = {},
                                            .references = {},
                                            .later = {},
                                            .task = {},
                                            .label = {}}},
                                          {.template_name = name, .longest = 500}, tokenizer);
    ASSERT_EQ(prompts.ids.size(), 1u);
    const std::vector<std::int32_t> head(whole.ids.begin(),
                                         whole.ids.begin() + whole.prompt_length);
    EXPECT_EQ(prompts.ids[0], head) << name;
    EXPECT_EQ(prompts.end_ids.front(), form.end_id());
  }
}

TEST(QuestionPrompts, AsIsTakesTheRecordsOwn) {
  FakeTokenizer tokenizer;
  tokenizer.adds_bos = true;
  const auto questions = parse_questions(R"({"instruction": "a", "prompt": "<|im_start|>a"})");
  const auto prompts =
      encode_questions(questions, {.template_name = "as-is", .longest = 9}, tokenizer);
  EXPECT_EQ(prompts.ids.at(0),
            (std::vector<std::int32_t>{FakeTokenizer::kBos, FakeTokenizer::kMessageStart, 'a'}));
  EXPECT_EQ(prompts.end_ids, std::vector<std::int32_t>{FakeTokenizer::kEos});
  expect_error(
      ErrorKind::data,
      [&] {
        encode_questions(parse_questions(R"({"id": "q", "question": "a"})"),
                         {.template_name = "as-is", .longest = 9}, tokenizer);
      },
      "question 'q'", "'prompt'");
  expect_error(
      ErrorKind::config,
      [&] { encode_questions(questions, {.template_name = "alpacca", .longest = 9}, tokenizer); },
      "alpacca", "alpaca", "as-is");
}

TEST(QuestionPrompts, ATurnFollowsTheAnswersBeforeIt) {
  const FakeTokenizer tokenizer;
  const auto questions = parse_questions(R"({"id": "q", "turns": ["a", "b"]})");
  const auto encode = [&](const char* name, std::int64_t longest,
                          data::Overlong overlong = data::Overlong::refuse) {
    return encode_questions(
        questions, {.template_name = name, .longest = longest, .answer = 10, .overlong = overlong},
        tokenizer);
  };
  const auto prompts = encode("chatml", 500);
  const std::string first = text_of(prompts.ids.at(0));
  const std::vector<std::string> said = {"yes"};
  const std::string second = text_of(encode_turn(*prompts.form, questions[0], said));
  EXPECT_EQ(second,
            first + "yes<|im_end|>\n<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n");
  // Counted before anything is answered: the second prompt with an answer of ten tokens.
  const std::vector<std::string> silence = {""};
  const std::int64_t needed = std::ssize(encode_turn(*prompts.form, questions[0], silence)) + 10;
  EXPECT_EQ(encode("chatml", needed).questions.size(), 1u);
  for (const auto overlong : {data::Overlong::refuse, data::Overlong::truncate})
    expect_error(
        ErrorKind::data, [&] { encode("chatml", needed - 1, overlong); }, "question 'q'",
        std::to_string(needed) + " tokens, with the answers");
  expect_error(
      ErrorKind::data, [&] { encode("chatml", needed - 1, data::Overlong::skip); },
      "each of the 1 questions");
  expect_error(
      ErrorKind::data, [&] { encode("alpaca", 500); }, "question 'q'", "a chat template is needed");
}

TEST(QuestionPrompts, LongOnesAreRefusedCutOrLeftOut) {
  const FakeTokenizer tokenizer;
  std::vector<Question> questions;
  for (const char* record :
       {R"({"id": "a", "prompt": "12345"})", R"({"id": "b", "prompt": "123456"})"})
    questions.push_back(one(record));
  PromptRules rules{.template_name = "as-is", .longest = 5};
  expect_error(
      ErrorKind::data, [&] { encode_questions(questions, rules, tokenizer); }, "question 'b'",
      "6 tokens", "5");
  rules.overlong = data::Overlong::truncate;
  const auto cut = encode_questions(questions, rules, tokenizer);
  ASSERT_EQ(cut.ids.size(), 2u);
  EXPECT_EQ(text_of(cut.ids[1]), "12345");
  EXPECT_EQ(cut.truncated, 1);
  rules.overlong = data::Overlong::skip;
  const auto kept = encode_questions(questions, rules, tokenizer);
  ASSERT_EQ(kept.questions.size(), 1u);
  EXPECT_EQ(kept.questions[0].id, "a");
  EXPECT_EQ(kept.skipped, 1);
  rules.longest = 4;
  expect_error(
      ErrorKind::data, [&] { encode_questions(questions, rules, tokenizer); }, "each of the 2");
}

}  // namespace
}  // namespace fathom::data_tools
