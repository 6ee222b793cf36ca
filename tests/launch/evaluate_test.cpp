// `fathom evaluate` as a user runs it: questions answered, scored and handed to a judge, the same
// on every grid.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "eval/answers.h"
#include "eval/rouge.h"
#include "tests/launch/evaluate_files.h"

namespace fathom::launch {
namespace {

using nlohmann::json;

constexpr const char* kQuestions =
    R"({"id": "rome", "instruction": "Who is Caesar?", "output": ["a man of Rome", "Julius"]}
{"id": "sort", "instruction": "Sort.", "input": "b a", "output": "a b"}
{"question": "To be?", "answer": "That is the question, or not."}
{"id": 7, "instruction": "Name a king.<n>One.", "response": "Lear"}
{"id": "last", "instruction": "Speak, and speak at length, for we have time!", "output": "Aye"}
)";

class Evaluate : public EvaluateFiles {
 protected:
  static void SetUpTestSuite() {
    EvaluateFiles::SetUpTestSuite();
    testing::write_tokens(*files_ / "tokens.h5", 6, 2, 20, 503, 3, testing::shakespeare());
    files::write_text_atomically(*files_ / "q.jsonl", kQuestions);
  }

  /// Questions to the model; short answers with two seeds unless `more` says otherwise.
  static std::string ask(const std::string& more) {
    return "$FATHOM evaluate --model=model --prompts=q.jsonl --template=plain --max-new=12 "
           "--seeds=1,2 --output=out.json " +
           more;
  }
};

TEST_F(Evaluate, ScoresWhatItWrites) {
  const json report = succeed(ask("--answers=a.jsonl --data=tokens.h5"));
  EXPECT_GT(report.at("loss").get<double>(), 0) << "both at once";
  const json& summary = report.at("answers");
  EXPECT_EQ(summary.at("questions"), 5);
  EXPECT_EQ(summary.at("template"), "plain");

  const auto answers = lines_of("a.jsonl");
  ASSERT_EQ(answers.size(), 10u);
  std::map<int, std::vector<double>> scores;
  for (const json& a : answers) {
    const std::vector<std::string> references = a.at("references");
    const double score = 100 * eval::best_rouge_l(a.at("answer").get<std::string>(), references);
    EXPECT_DOUBLE_EQ(a.at("rouge_l").get<double>(), score);
    EXPECT_EQ(a.at("model"), "model");
    scores[a.at("seed")].push_back(score);
  }
  EXPECT_EQ(answers[1].at("prompt"), "Sort.\nb a\n");
  EXPECT_EQ(answers[2].at("id"), "3") << "the line's number";
  EXPECT_EQ(answers[3].at("question"), "Name a king.\nOne.");
  EXPECT_NE(answers[0].at("answer"), answers[5].at("answer")) << "another seed";

  std::vector<double> means;
  for (const auto& [seed, values] : scores) {
    means.push_back(eval::spread_of(values).mean);
    EXPECT_NEAR(summary.at("seeds")[means.size() - 1].at("rouge_l").get<double>(), means.back(),
                1e-12);
  }
  const eval::Spread spread = eval::spread_of(means);
  EXPECT_NEAR(summary.at("rouge_l").at("mean").get<double>(), spread.mean, 1e-12);
  EXPECT_NEAR(summary.at("rouge_l").at("sd").get<double>(), *spread.sd, 1e-12);
}

TEST_F(Evaluate, EveryGridAndBatchGivesTheSameAnswers) {
  succeed(ask("--batch=1 --answers=alone.jsonl"));
  const std::string alone = files::read_text(*files_ / "alone.jsonl");
  for (const std::string grid : {"--tp=2", "--pp=2", "--dp=2", "--dp=2 --batch=2"}) {
    succeed("$MPIRUN " + ask(grid + " --answers=grid.jsonl"));
    EXPECT_EQ(files::read_text(*files_ / "grid.jsonl"), alone) << grid;
  }
  succeed(ask("--batch=4 --answers=batch.jsonl"));
  EXPECT_EQ(files::read_text(*files_ / "batch.jsonl"), alone);
}

/// Whatever it says first ends its answer.
TEST_F(Evaluate, AModelThatSaysNothingScoresZeroAndIsCounted) {
  std::vector<int> every(1024);
  for (int id = 0; id < 1024; ++id) every[static_cast<std::size_t>(id)] = id;
  write_model("mute", {{"eos_token_id", every}});
  const json summary = succeed(ask("--model=mute --answers=mute.jsonl")).at("answers");
  EXPECT_EQ(summary.at("rouge_l").at("mean"), 0.0);
  EXPECT_EQ(summary.at("seeds")[0].at("empty"), 5);
  EXPECT_EQ(summary.at("seeds")[0].at("unfinished"), 0);
  EXPECT_EQ(lines_of("mute.jsonl").at(0).at("answer"), "");
}

/// Most of this head's rows are padding: they have no text, and are never chosen.
TEST_F(Evaluate, AHeadMayBeWiderThanItsTokenizer) {
  write_model("wide", json::object(), 4096);
  const json summary = succeed(ask("--model=wide --temperature=2")).at("answers");
  EXPECT_EQ(summary.at("seeds")[0].at("empty"), 0);
  const Outcome said = in_folder(
      "$FATHOM generate --model=wide --prompt=To --temperature=2 --max-new=20 2>/dev/null");
  EXPECT_EQ(said.code, 0) << said.text;
}

TEST_F(Evaluate, WritesWhatAJudgeIsAsked) {
  succeed(ask("--judge=single.jsonl --name=student"));
  const auto single = lines_of("single.jsonl");
  ASSERT_EQ(single.size(), 5u) << "the first seed's";
  EXPECT_EQ(single[0].at("id"), "rome");
  EXPECT_EQ(single[0].at("model"), "student");
  const std::string asked = single[0].at("messages")[1].at("content");
  EXPECT_NE(asked.find("Who is Caesar?"), std::string::npos);
  EXPECT_NE(asked.find("a man of Rome"), std::string::npos) << "the reference";

  succeed(ask("--seeds=9 --answers=rival.jsonl --name=rival"));
  succeed(ask("--judge=pairs.jsonl --judge-against=rival.jsonl --answers=own.jsonl"));
  const auto pairs = lines_of("pairs.jsonl");
  ASSERT_EQ(pairs.size(), 10u) << "both orders";
  EXPECT_EQ(pairs[0].at("model_a"), "model");
  EXPECT_EQ(pairs[1].at("model_a"), "rival");
  const std::string rival = lines_of("rival.jsonl")[0].at("answer");
  const std::string own = lines_of("own.jsonl")[0].at("answer");
  const std::string first = pairs[0].at("messages")[1].at("content");
  EXPECT_NE(first.find("[Begin answer A]\n" + own), std::string::npos) << first;
  EXPECT_NE(first.find("[Begin answer B]\n" + rival), std::string::npos) << first;
}

TEST_F(Evaluate, QuestionsWithoutReferencesGoToAJudge) {
  files::write_text_atomically(*files_ / "open.jsonl",
                               "{\"question_id\": 1, \"turns\": [\"Why?\"]}\n");
  expect_refused(in_folder(ask("--prompts=open.jsonl --judge=j.jsonl")), 3, "open.jsonl",
                 "question '1' has no reference", "--rouge=false");
  const json summary =
      succeed(ask("--prompts=open.jsonl --judge=j.jsonl --rouge=false")).at("answers");
  EXPECT_FALSE(summary.contains("rouge_l"));
  EXPECT_EQ(lines_of("j.jsonl").size(), 1u);
}

/// Two turns: the second is asked with the model's own first answer in front of it.
TEST_F(Evaluate, LaterTurnsFollowTheAnswersBeforeThem) {
  files::write_text_atomically(
      *files_ / "turns.jsonl",
      R"({"question_id": 1, "turns": ["Who?", "Sure?"], "reference": ["I", "Yes"]})"
      "\n"
      R"({"question_id": 2, "turns": ["When?"]})"
      "\n");
  const std::string turns =
      ask("--prompts=turns.jsonl --template=zephyr --rouge=false --max-new=6 --seeds=1 ");
  expect_refused(in_folder(ask("--prompts=turns.jsonl --template=zephyr --max-new=6")), 3,
                 "question '1' has several turns");
  succeed(turns + "--answers=t.jsonl --judge=marks.jsonl --name=a");
  const auto answers = lines_of("t.jsonl");
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[1].at("id"), "1");
  EXPECT_EQ(answers[1].at("turn"), 2);
  EXPECT_EQ(answers[1].at("question"), "Sure?");
  EXPECT_EQ(answers[1].at("references"), json({"Yes"}));
  const std::string said = answers[0].at("answer"), prompt = answers[1].at("prompt");
  EXPECT_TRUE(prompt.starts_with(answers[0].at("prompt").get<std::string>() + said)) << prompt;
  const auto marks = lines_of("marks.jsonl");
  ASSERT_EQ(marks.size(), 3u);
  EXPECT_EQ(marks[1].at("turn"), 2);
  const std::string asked = marks[1].at("messages")[1].at("content");
  EXPECT_LT(asked.find("[Begin answer 1]\n" + said), asked.find("[Begin question 2]\nSure?"));
  EXPECT_NE(asked.find("[Begin reference answer 2]\nYes"), std::string::npos);

  succeed(turns + "--seeds=2 --judge=pairs.jsonl --judge-against=t.jsonl");
  EXPECT_EQ(lines_of("pairs.jsonl").size(), 6u) << "three answers in both orders";
  for (const std::string grid : {"--pp=2", "--dp=2"}) {
    succeed("$MPIRUN " + turns + grid + " --answers=grid.jsonl --name=a");
    EXPECT_EQ(files::read_text(*files_ / "grid.jsonl"), files::read_text(*files_ / "t.jsonl"));
  }
}

TEST_F(Evaluate, LongPromptsAreRefusedCutOrLeftOut) {
  const std::string limit = "--max-prompt=12 ";
  expect_refused(in_folder(ask(limit)), 3, "question 'last'", "12 are the most");
  const json cut = succeed(ask(limit + "--overlong=truncate")).at("answers");
  EXPECT_GE(cut.at("truncated"), 1);
  EXPECT_EQ(cut.at("questions"), 5);
  const json kept = succeed(ask(limit + "--overlong=skip")).at("answers");
  EXPECT_EQ(kept.at("skipped"), cut.at("truncated"));
  EXPECT_EQ(kept.at("questions").get<int>(), 5 - kept.at("skipped").get<int>());
  // The small model has 64 positions.
  expect_refused(in_folder(ask("--max-new=64")), 2, "--max-new 64", "64 positions");
  expect_refused(in_folder(ask("--max-new=60 --max-prompt=8")), 2, "--max-prompt 8", "64");
}

TEST_F(Evaluate, RefusesBadQuestionFiles) {
  const auto refused = [](const std::string& text, int code, const auto&... parts) {
    files::write_text_atomically(*files_ / "bad.jsonl", text);
    expect_refused(in_folder("$MPIRUN " + ask("--dp=2 --prompts=bad.jsonl")), code, parts...);
  };
  const std::string good = "{\"question\": \"a\", \"answer\": \"b\"}\n";
  refused("", 3, "bad.jsonl", "no question");
  refused(good + "{\"question\": \"a\", \"answer\": }\n", 3, "bad.jsonl:2", "malformed JSON");
  refused(good + "{\"question\": \"a\"}\n", 3, "question '2' has no reference");
  refused(good + "{\"question\": \"a\", \"answer\": []}\n", 3, "question '2' has no reference");
  refused(good + "{\"query\": \"a\"}\n", 3, "bad.jsonl:2", "no field");
  expect_refused(in_folder(ask("--prompts=nowhere.jsonl")), 4, "nowhere.jsonl");
  expect_refused(in_folder(ask("--template=alpacca")), 2, "alpacca", "alpaca", "as-is");
  expect_refused(in_folder(ask("--template=as-is")), 3, "question 'rome'", "'prompt'");
  for (const std::string file : {"answers", "judge", "output"})
    expect_refused(in_folder(ask("--" + file + "=nowhere/a")), 4, "nowhere/a", "no folder");
}

TEST_F(Evaluate, RefusesAnswersToOtherQuestions) {
  succeed(ask("--seeds=1 --answers=given.jsonl"));
  files::write_text_atomically(*files_ / "other.jsonl",
                               "{\"id\": \"rome\", \"question\": \"Who?\", \"answer\": \"b\"}\n");
  const std::string against = "--judge=j.jsonl --judge-against=given.jsonl ";
  expect_refused(in_folder(ask(against + "--prompts=other.jsonl")), 3, "given.jsonl",
                 "question 'rome' was another one", "Caesar");
  files::write_text_atomically(
      *files_ / "more.jsonl",
      std::string(kQuestions) + "{\"question\": \"?\", \"answer\": \"b\"}\n");
  expect_refused(in_folder(ask(against + "--prompts=more.jsonl")), 3, "given.jsonl",
                 "no answer to question '6'");
}

}  // namespace
}  // namespace fathom::launch
