// `fathom evaluate --task` as a user runs it: which questions are asked, and that what is counted
// is what stands in the answers.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "eval/accuracy.h"
#include "tests/launch/evaluate_files.h"

namespace fathom::launch {
namespace {

using nlohmann::json;

constexpr const char* kQuestions =
    R"({"task": "boolq", "instruction": "is it", "answer": "true"}
{"task": "ARC-Easy", "instruction": "Speak", "input": "", "output": "a model's", "answer": "answer2"}
{"task": "AddSub", "instruction": "1+1", "answer": "2"}
{"task": "svamp", "instruction": "2+2", "output": "", "answer": "4.0"}
{"task": "boolq", "instruction": "is it so", "answer": "false"}
{"task": "gsm8k", "question": "3+3", "answer": "<<3+3=6>>\n#### 6"}
)";

class EvaluateTask : public EvaluateFiles {
 protected:
  static void SetUpTestSuite() {
    EvaluateFiles::SetUpTestSuite();
    files::write_text_atomically(*files_ / "q.jsonl", kQuestions);
  }
  static std::string ask(const std::string& more) {
    return "$FATHOM evaluate --model=model --prompts=q.jsonl --template=plain --max-new=12 "
           "--output=out.json " +
           more;
  }
};

TEST_F(EvaluateTask, CountsWhatStandsInTheAnswers) {
  const json summary =
      succeed(ask("--task=commonsense,arithmetic --answers=a.jsonl --seeds=1,2 --temperature=1"))
          .at("answers");
  EXPECT_EQ(summary.at("questions"), 5);
  EXPECT_EQ(summary.at("left_out"), 1) << "AddSub";
  EXPECT_EQ(summary.at("sets_missing").size(), 8u);
  EXPECT_EQ(summary.at("sets_missing")[0], "piqa");

  std::map<std::pair<int, std::string>, eval::SetScore> scores;
  for (const json& line : lines_of("a.jsonl")) {
    const std::string task = line.at("task"), answer = line.at("answer"), label = line.at("label");
    const auto grades = eval::grade(*eval::find_answer_set(task), answer, label);
    EXPECT_EQ(line.at("strict").at("correct"), grades.strict.correct);
    EXPECT_EQ(line.at("legacy").at("found").is_null(), !grades.legacy.found);
    EXPECT_EQ(line.at("references"), json::array({label})) << "never a model's text";
    scores[{line.at("seed"), task}].add(grades);
  }
  ASSERT_EQ(scores.size(), 2u * 4u);
  double means = 0;
  for (const json& seed : summary.at("seeds")) {
    std::vector<eval::SetScore> sets;
    ASSERT_EQ(seed.at("sets").size(), 4u);
    for (const auto& [name, counts] : seed.at("sets").items()) {
      const eval::SetScore& score = scores.at({seed.at("seed"), name});
      sets.push_back(score);
      EXPECT_EQ(counts.at("questions"), score.questions);
      EXPECT_EQ(counts.at("correct").at("strict"), score.strict.correct);
      EXPECT_EQ(counts.at("no_match").at("legacy"), score.legacy.no_match);
      EXPECT_EQ(counts.at("accuracy").at("legacy"), score.accuracy().legacy);
    }
    EXPECT_NEAR(seed.at("accuracy").at("strict").get<double>(), eval::mean_accuracy(sets).strict,
                1e-12);
    means += seed.at("accuracy").at("legacy").get<double>() / 2;
  }
  EXPECT_NEAR(summary.at("accuracy").at("legacy").at("mean").get<double>(), means, 1e-12);
}

TEST_F(EvaluateTask, EveryGridAndBatchGivesTheSameAnswers) {
  const std::string all = "--task=commonsense,arithmetic ";
  const json alone = succeed(ask(all + "--batch=1 --answers=alone.jsonl"));
  const std::string answers = files::read_text(*files_ / "alone.jsonl");
  EXPECT_EQ(lines_of("alone.jsonl").size(), 5u) << "greedy, once";
  for (const std::string grid : {"--tp=2", "--pp=2", "--dp=2 --batch=2"}) {
    EXPECT_EQ(succeed("$MPIRUN " + ask(all + grid + " --answers=grid.jsonl")), alone) << grid;
    EXPECT_EQ(files::read_text(*files_ / "grid.jsonl"), answers) << grid;
  }
  succeed(ask(all + "--batch=5 --answers=batch.jsonl"));
  EXPECT_EQ(files::read_text(*files_ / "batch.jsonl"), answers);
}

TEST_F(EvaluateTask, TunedModelsAnswerTheSameOnEveryGrid) {
  testing::write_tokens(*files_ / "tokens.h5", 6, 4, 20, 503, 3, testing::shakespeare());
  const std::string all =
      "$FATHOM evaluate --prompts=q.jsonl --template=plain --max-new=12 --output=out.json "
      "--task=commonsense,arithmetic ";
  succeed(all + "--model=model --answers=base.jsonl --name=it");
  const std::string base = files::read_text(*files_ / "base.jsonl");
  for (const auto& [run, options] : {std::pair("lora", "--adapter.kind=lora"),
                                     std::pair("control", "--adapter.kind=parallel_control"),
                                     std::pair("moc", "--moc.enabled --moc.top_k=2"),
                                     std::pair("mode", "--mode.enabled --mode.k=2")}) {
    const std::string folder = std::string("run-") + run;
    const Outcome trained = in_folder(
        "$FATHOM train --model.path=model --data.train=tokens.h5 "
        "--run.steps=3 --optim.lr=0.05 --run.dir=" +
        folder + " " + options);
    ASSERT_EQ(trained.code, 0) << trained.text;
    const std::string tuned = all + "--name=it --checkpoint=" + folder;
    succeed(tuned + " --answers=alone.jsonl");
    const std::string answers = files::read_text(*files_ / "alone.jsonl");
    EXPECT_NE(answers, base) << run;
    for (const std::string grid : {" --tp=2", " --pp=2", " --dp=2 --batch=2"}) {
      succeed("$MPIRUN " + tuned + grid + " --answers=grid.jsonl");
      EXPECT_EQ(files::read_text(*files_ / "grid.jsonl"), answers) << run << grid;
    }
  }
}

TEST_F(EvaluateTask, AsksSingleSetsAndSomeOfEach) {
  const json one = succeed(ask("--task=boolq,arc_e --questions=1")).at("answers");
  EXPECT_EQ(one.at("questions"), 2) << "of each set";
  EXPECT_TRUE(one.at("sets_missing").empty());
  files::write_text_atomically(*files_ / "untold.json",
                               R"([{"instruction": "a", "input": "", "answer": "C"}])");
  const json untold = succeed(ask("--prompts=untold.json --task=aqua")).at("answers");
  EXPECT_EQ(untold.at("seeds")[0].at("sets").at("aqua").at("questions"), 1);
}

TEST_F(EvaluateTask, RefusesWhatCannotBeScored) {
  expect_refused(in_folder(ask("--task=piqa")), 3, "q.jsonl", "no question of the task piqa");
  expect_refused(in_folder(ask("--task=boolq,piqa")), 3, "no question of the task piqa");
  const auto refused = [](const std::string& line, const std::string& task, const auto&... parts) {
    files::write_text_atomically(*files_ / "bad.jsonl", line + "\n");
    expect_refused(in_folder(ask("--prompts=bad.jsonl --task=" + task)), 3, "bad.jsonl",
                   "question '1'", parts...);
  };
  refused(R"({"instruction": "a", "answer": "true"})", "commonsense", "field 'task'");
  refused(R"({"task": "boolq", "instruction": "a"})", "boolq", "field 'answer'");
  refused(R"({"task": "boolq", "instruction": "a", "answer": "yes"})", "boolq", "'yes'", "true");
  refused(R"({"task": "SVAMP", "instruction": "a", "answer": "?"})", "svamp", "'?'", "number");
}

}  // namespace
}  // namespace fathom::launch
