// Leaving early as a user does it: a model trained with late layers that vote answers through
// `fathom generate` and `fathom evaluate`, on any grid, and says how deep its tokens went.

#include <algorithm>
#include <regex>

#include "tests/launch/evaluate_files.h"

namespace fathom::launch {
namespace {

using nlohmann::json;

class ExitCommand : public EvaluateFiles {
 protected:
  static void SetUpTestSuite() {
    EvaluateFiles::SetUpTestSuite();
    testing::write_tokens(*files_ / "tokens.h5", 40, 2, 20, 1024, 3, testing::shakespeare());
    files::write_text_atomically(*files_ / "q.jsonl",
                                 R"({"instruction": "First citizen", "output": "Speak"})"
                                 "\n"
                                 R"({"instruction": "To be", "output": "or not"})"
                                 "\n");
    // The router's rate lets its weights differ between tokens after a few steps.
    const Outcome trained = in_folder(
        "$FATHOM train --run.dir=run --run.steps=8 --model.path=model --data.train=tokens.h5 "
        "--optim.lr=0.03 --batch.micro_batches=2 --run.quiet=true --log.tensorboard=false "
        "--adapter.kind=lora --mode.enabled=true --mode.k=3");
    EXPECT_EQ(trained.code, 0) << trained.text;
  }

  /// What `generate` writes to standard output; the rest goes to standard error, into `said`.
  static std::string generate(const std::string& options, const std::string& launcher = "") {
    const Outcome outcome = in_folder(launcher +
                                      " $FATHOM generate --checkpoint=run --max-new=24 "
                                      "--ignore-eos --prompt='To be, or not' " +
                                      options + " 2>said");
    EXPECT_EQ(outcome.code, 0) << options << "\n" << outcome.text << said();
    return outcome.text;
  }
  static std::string said() { return files::read_text(*files_ / "said"); }
  static bool said(const std::string& part) { return said().find(part) != std::string::npos; }
};

TEST_F(ExitCommand, TextIsThatOfEveryLayerOnAnyGrid) {
  const std::string leaving = "--exit=topk --exit-topk=1 ";
  const std::string every_layer = generate(leaving + "--exit-cache=off");
  EXPECT_TRUE(said("of 4 layers a token")) << said();
  EXPECT_EQ(generate(leaving), every_layer) << "deferred caches are exact";
  EXPECT_EQ(generate(leaving + "--exit-flush=2"), every_layer);
  EXPECT_EQ(generate(leaving + "--exit-flush=0"), every_layer);
  EXPECT_EQ(generate(leaving + "--tp=2", "$MPIRUN"), every_layer);
  EXPECT_EQ(generate(leaving + "--pp=2", "$MPIRUN"), every_layer);
  const std::string streamed = generate(leaving + "--exit-cache=off --stream");
  EXPECT_EQ(generate(leaving + "--stream"), streamed);
  EXPECT_EQ(generate(leaving + "--stream --pp=2", "$MPIRUN"), streamed);
}

TEST_F(ExitCommand, TheWholeShareKeepsEveryLayer) {
  const std::string dense = generate("");
  EXPECT_FALSE(said("exits:")) << "nothing leaves: " << said();
  EXPECT_EQ(generate("--exit=dense"), dense);
  EXPECT_EQ(generate("--exit=threshold --exit-threshold=1"), dense);
  EXPECT_TRUE(said("4.00 of 4 layers a token")) << said();
}

// The groups of every match of a pattern, as numbers.
std::vector<std::vector<double>> numbers(const std::string& text, const char* pattern) {
  const std::regex form(pattern);
  std::vector<std::vector<double>> found;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), form); at != std::sregex_iterator();
       ++at) {
    found.emplace_back();
    for (std::size_t group = 1; group < at->size(); ++group)
      found.back().push_back(std::stod(at->str(group)));
  }
  return found;
}

// Three pairs, each with its ratio, of which the middle one is the answer; beside it the bound of
// what left and what ran, which is the same whenever the prompts are decoded.
TEST_F(ExitCommand, SaysHowMuchFaster) {
  generate("--exit=threshold --exit-threshold=0.01 --exit-compare");  // all leave at the first
  const auto pairs = numbers(said(),
                             "exit-compare: ([0-9.]+) tokens/s with exits, ([0-9.]+) through all "
                             "layers: ([0-9.]+) times");
  ASSERT_EQ(pairs.size(), 3u) << said();
  std::vector<double> ratios;
  for (const auto& pair : pairs) {
    EXPECT_NEAR(pair[2], pair[0] / pair[1], 1e-3 * (1 + pair[2]) + 0.1 * pair[2] / pair[1]);
    ratios.push_back(pair[2]);
  }
  std::sort(ratios.begin(), ratios.end());
  const auto median = numbers(said(),
                              "in the median ([0-9.]+) times as fast, prompts left out; by the "
                              "weights read at most ([0-9.]+)");
  ASSERT_EQ(median.size(), 1u) << said();
  EXPECT_EQ(median[0][0], ratios[1]);
  const auto bound = numbers(said(), "read at most ([0-9.]+) times as fast as all layers");
  ASSERT_EQ(bound.size(), 1u) << said();
  EXPECT_EQ(median[0][1], bound[0][0]);
  EXPECT_GT(bound[0][0], 1);

  generate("--exit=topk --exit-topk=1 --exit-compare --max-new=1");
  EXPECT_TRUE(said("nothing is left to time")) << said();
}

TEST_F(ExitCommand, EvaluationReportsDepth) {
  const std::string evaluate =
      "$FATHOM evaluate --checkpoint=run --prompts=q.jsonl --template=plain --max-new=12 "
      "--output=out.json --exit=threshold --exit-threshold=";
  const auto exits = [&](const std::string& share) {
    return succeed(evaluate + share).at("answers").at("seeds").at(0).at("exits");
  };
  EXPECT_DOUBLE_EQ(exits("1").at("layers"), 4.0);
  const json few = exits("0.01");  // the first late layer has as much, whatever the token
  EXPECT_LT(few.at("layers"), 4.0);
  EXPECT_GT(few.at("fastest"), 1.0);
  std::int64_t tokens = 0;
  for (const json& at_depth : few.at("tokens")) tokens += at_depth.get<std::int64_t>();
  EXPECT_GT(tokens, 0);

  // Replicas answer other questions, and count together.
  const json half = exits("0.5");
  const json spread =
      succeed("$MPIRUN " + evaluate + "0.5 --dp=2").at("answers").at("seeds").at(0).at("exits");
  EXPECT_EQ(spread.at("tokens"), half.at("tokens"));
  EXPECT_EQ(spread.at("layers"), half.at("layers"));
}

TEST_F(ExitCommand, WhatCannotBe) {
  const std::string prompt = "$FATHOM generate --prompt=x ";
  expect_refused(in_folder(prompt + "--model=model --exit=topk --exit-topk=1"), 2, "--exit=topk",
                 "no router", "mode.enabled=true");
  expect_refused(in_folder(prompt + "--checkpoint=run --exit=topk --exit-topk=4"), 2,
                 "--exit-topk=4", "3 late layers");
  expect_refused(in_folder(prompt + "--checkpoint=run --exit=threshold"), 2, "--exit-threshold");
  expect_refused(in_folder(prompt + "--checkpoint=run --exit=never"), 2, "exit", "never",
                 "threshold");
}

}  // namespace
}  // namespace fathom::launch
