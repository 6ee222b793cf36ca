#include <fstream>
#include <gtest/gtest.h>

#include "launch/options/train.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace fathom::options {
namespace {

using testing::expect_error;

const Arguments minimum = {"--run.dir=out", "--data.train=t.h5", "--model.path=gpt2"};

Arguments with_minimum(const Arguments& more) {
  Arguments all = minimum;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TrainRequest parse(const Arguments& more) {
  return parse_train(with_minimum(more));
}

/// A recipe that exists while the object does.
class RecipeFile {
 public:
  explicit RecipeFile(const std::string& text) : path_((directory_ / "recipe.ini").string()) {
    std::ofstream(path_) << text;
  }
  const std::string& path() const { return path_; }

 private:
  testing::TemporaryDirectory directory_;
  std::string path_;
};

TEST(TrainOptions, TheCommandLineBeatsTheRecipeWhereverItStands) {
  const RecipeFile recipe("[optim]\nlr = 0.5\nbeta1 = 0.8\n");
  for (const Arguments& order : {Arguments{recipe.path(), "--optim.lr=1e-4"},
                                 Arguments{"--optim.lr", "1e-4", recipe.path()}}) {
    const TrainRequest request = parse(order);
    EXPECT_EQ(request.config.optim.lr, 1e-4);
    EXPECT_EQ(request.config.optim.beta1, 0.8);
    EXPECT_EQ(request.config.optim.beta2, train::OptimConfig{}.beta2);
    EXPECT_EQ(request.recipe, recipe.path());
  }
}

TEST(TrainOptions, OfTwoEqualNamesTheLastCounts) {
  EXPECT_EQ(parse({"--run.steps=5", "--run.steps=9"}).config.run.steps, 9);
}

TEST(TrainOptions, AnEmptyValueIsAValue) {
  const RecipeFile recipe("[data]\neval = held_out.h5\n");
  EXPECT_EQ(parse({recipe.path(), "--data.eval="}).config.data.eval, "");
}

TEST(TrainOptions, SpansSayWhatAWordIs) {
  const TrainRequest request = parse({"--spans.words=in-phrases", "--spans.vp=group"});
  EXPECT_EQ(request.config.spans.words, data::spans::Words::in_phrases);
  EXPECT_EQ(request.config.spans.vp, data::spans::VerbPhrases::group);
  EXPECT_FALSE(request.config.spans.given());
  EXPECT_TRUE(parse({"--spans.model=m.h5"}).config.spans.given());
  expect_error(
      ErrorKind::config, [] { parse({"--spans.vp=full"}); }, "spans.vp", "full", "pattern|group");
}

TEST(TrainOptions, FaultsSayWhereAndHowLong) {
  const auto refused = [](const std::vector<std::string>& words, const std::string& key,
                          const std::string& rule) {
    expect_error(
        ErrorKind::config, [&] { parse(words); }, key, rule);
  };
  refused({"--faults.kind=kill"}, "faults.action", "name the action");
  refused({"--faults.kind=nan", "--faults.action=update"}, "faults.action", "leave it empty");
  refused({"--faults.kind=kill", "--faults.action=foward"}, "faults.action", "no such action");
  refused({"--faults.kind=slow_link", "--faults.seconds=1"}, "grid.pp", "between stages");
  refused({"--faults.kind=stall", "--faults.action=save"}, "faults.seconds", "for how long");
  refused({"--faults.kind=kill", "--faults.action=save", "--faults.seconds=1"}, "faults.seconds",
          "leave it at 0");
  refused({"--faults.kind=nan", "--faults.rank=2", "--grid.pp=2"}, "faults.rank = 2",
          "only 2 ranks");
  EXPECT_EQ(
      parse({"--faults.kind=slow_link", "--faults.seconds=0.1", "--grid.pp=2"}).config.faults.kind,
      train::FaultKind::slow_link);
}

TEST(TrainOptions, FlagsNeedNoValue) {
  const TrainRequest request = parse({"--run.quiet", "--log.jsonl=false", "--dry-run"});
  EXPECT_TRUE(request.config.run.quiet);
  EXPECT_FALSE(request.config.log.jsonl);
  EXPECT_TRUE(request.dry_run);
  EXPECT_FALSE(request.reply.has_value());
}

TEST(TrainOptions, RefusesAMalformedLine) {
  expect_error(
      ErrorKind::usage, [] { parse({"--optim.lr"}); }, "--optim.lr");
  expect_error(
      ErrorKind::usage,
      [] {
        parse({"--optim.lr", "--run.quiet"});
      },
      "--optim.lr");
  expect_error(
      ErrorKind::usage,
      [] {
        parse({"a.ini", "b.ini"});
      },
      "positional");
  expect_error(
      ErrorKind::config, [] { parse({"--optim.rl=1"}); }, "'optim.rl'", "command line",
      "'optim.lr'");
  expect_error(
      ErrorKind::config,
      [] {
        parse({"--lr", "1"});
      },
      "'lr'", "'optim.lr'");
  expect_error(
      ErrorKind::config, [] { parse({"--optim.l=1"}); }, "'optim.l'", "'optim.lr'");
  expect_error(
      ErrorKind::config, [] { parse({"--optim.lr=0"}); }, "optim.lr = '0'", "command line",
      "greater than 0");
}

TEST(TrainOptions, PrintedRecipeReproducesTheRun) {
  const TrainRequest first =
      parse({"--print-config", "--optim.lr=0.00012345678901234567", "--grid.pp=2",
             "--grid.layers=3,2", "--model.freeze=transformer.wte*", "--schedule.kind=linear"});
  ASSERT_TRUE(first.reply.has_value());
  const RecipeFile recipe(*first.reply);
  const TrainRequest second = parse_train({recipe.path(), "--print-config"});
  EXPECT_EQ(second.reply, first.reply);
  EXPECT_TRUE(changes(first.config, second.config).empty());
}

TEST(TrainOptions, HelpWinsOverEverythingElse) {
  const TrainRequest request = parse_train({"--nonsense", "--help"});
  ASSERT_TRUE(request.reply.has_value());
  train::TrainConfig config;
  OptionTable table;
  describe_train(table, config);
  for (const Option& option : table.options()) {
    EXPECT_NE(request.reply->find("--" + option.name), std::string::npos) << option.name;
  }
  EXPECT_NE(request.reply->find("--optim.lr <number greater than 0>  [1e-04]"), std::string::npos);
  EXPECT_TRUE(parse_train({"-h"}).reply.has_value());
}

TEST(TrainOptions, BrokenRulesNameEveryKeyWithItsOrigin) {
  const RecipeFile recipe("[schedule]\nkind = wsd\nwarmup_steps = 60\ndecay_steps = 50\n");
  expect_error(
      ErrorKind::config,
      [&] {
        parse({recipe.path(), "--run.steps=100"});
      },
      "schedule.warmup_steps = 60 (" + recipe.path() + ":3)",
      "schedule.decay_steps = 50 (" + recipe.path() + ":4)", "run.steps = 100 (command line)",
      "must fit into the run");
}

TEST(TrainOptions, ListsAllBrokenRulesAtOnce) {
  expect_error(
      ErrorKind::config, [] { parse_train({}); }, "run.dir = (empty) (default)", "data.train",
      "model.path");
}

struct BadCase {
  Arguments arguments;
  std::string expected;
};

TEST(TrainOptions, RulesBetweenKeys) {
  const std::vector<BadCase> cases = {
      {{"--model.config=c.json"}, "read only with init = random"},
      {{"--model.init=random"}, "needs the model's config.json"},
      {{"--model.init=teacher_layers", "--model.path="}, "needs the layers to take"},
      {{"--model.teacher_layers=every:3"}, "read only with init = teacher_layers"},
      {{"--model.init=teacher_layers", "--model.path=", "--model.teacher_layers=3,1",
        "--teacher.path=t"},
       "must ascend"},
      {{"--model.init=teacher_layers", "--model.path=", "--model.teacher_layers=1,1",
        "--teacher.path=t"},
       "must ascend"},
      {{"--model.frozen_dtype=bf16"}, "model.freeze names none"},
      {{"--model.freeze=all"}, "nothing is left to train"},
      {{"--moc.rank=8"}, "the whole model would be trained"},
      {{"--moc.top_k=2", "--adapter.kind=lora"}, "set moc.enabled = true"},
      {{"--adapter.rank=4"}, "read only with adapter.kind = lora, dora, vera"},
      {{"--adapter.targets=q_proj"}, "read only with adapter.kind = lora, dora, vera, molex"},
      {{"--adapter.path=a", "--adapter.rank=4"}, "the folder says what the adapter is"},
      {{"--adapter.path=a", "--adapter.alpha=4"}, "the folder says what the adapter is"},
      {{"--adapter.path=a", "--adapter.kind=lora"}, "leave adapter.kind at none"},
      {{"--adapter.kind=vera", "--adapter.alpha=8"}, "adapter.kind = lora, dora, molex"},
      {{"--adapter.kind=loreft", "--adapter.sites=mlp"}, "adapter.kind = parallel_control"},
      {{"--adapter.kind=lora", "--adapter.control_scale=2"}, "adapter.kind = parallel_control"},
      {{"--adapter.kind=lora", "--adapter.prefix=2"}, "adapter.kind = loreft"},
      {{"--adapter.kind=lora", "--adapter.suffix=2"}, "adapter.kind = loreft"},
      {{"--adapter.kind=lora", "--adapter.tied=false"}, "adapter.kind = loreft"},
      {{"--adapter.kind=dora", "--adapter.d_initial=1"}, "adapter.kind = vera"},
      {{"--adapter.kind=loreft", "--adapter.dropout=0.1"}, "adapter.kind = lora, dora, vera"},
      {{"--adapter.kind=vera", "--adapter.rslora=true"}, "adapter.kind = lora, dora, molex"},
      {{"--adapter.kind=molex", "--adapter.layers=1"}, "adapter.kind = lora, dora, vera, loreft"},
      {{"--grid.pp=2", "--grid.layers=3"}, "each of the 2 stages"},
      {{"--grid.teacher_layers=3"}, "no teacher whose layers"},
      {{"--loss.ce_weight=0"}, "at least one weight"},
      {{"--loss.kd_weight=1"}, "needs a teacher"},
      {{"--teacher.path=t"}, "never used"},
      {{"--loss.divergence=js"}, "the divergence would have no weight"},
      {{"--teacher.path=t", "--loss.kd_weight=1", "--loss.divergence=skew_kl", "--loss.alpha=0"},
       "alpha must be greater than 0 and less than 1"},
      {{"--teacher.path=t", "--loss.kd_weight=1", "--loss.divergence=skew_reverse_kl",
        "--loss.alpha=1"},
       "alpha must be greater than 0 and less than 1"},
      {{"--teacher.path=t", "--loss.kd_weight=1", "--loss.alpha=0.2"}, "alpha is read only by"},
      {{"--teacher.path=t", "--loss.kd_weight=1", "--loss.on_prompt", "--distill.method=mixed"},
       "prompts are learnt only from the records of data.train"},
      {{"--teacher.path=t", "--loss.kd_weight=1", "--loss.beta=0.2"}, "beta is read only by js"},
      {{"--teacher.path=t", "--loss.kd_weight=1", "--loss.divergence=skew_kl",
        "--loss.detach_mixture=true"},
       "detach_mixture is read only by skew_reverse_kl"},
      {{"--mta.enabled"}, "MTA aligns the student with a teacher"},
      {{"--mta.enabled"}, "MTA needs words and phrases"},
      {{"--mta.enabled", "--mta.dsa_weight=0", "--mta.hid_weight=0"}, "at least one weight"},
      {{"--mta.enabled", "--mta.student_layers=3,2"}, "must ascend"},
      {{"--mta.enabled", "--mta.student_layers=-1,2"}, "counted from 0"},
      {{"--mta.enabled", "--mta.student_layers=1,2", "--mta.teacher_layers=4"},
       "each student layer needs one"},
      {{"--mta.enabled", "--mta.teacher_layers=4"}, "each student layer needs one"},
      {{"--mta.enabled", "--mta.words=3", "--mta.student_layers=1,2"}, "fewer key layers"},
      {{"--mta.enabled", "--mta.words=1", "--mta.granularity=phrases"}, "granularity = adaptive"},
      {{"--mta.enabled", "--mta.normalise=batch"}, "the step must have only one"},
      {{"--mta.enabled", "--spans.train=s.h5", "--distill.method=adaptive"},
       "needs the extractor's model"},
      {{"--mta.enabled", "--spans.train=s.h5", "--distill.method=mixed"},
       "needs the extractor's model"},
      {{"--mta.enabled", "--spans.train=s.h5", "--distill.method=contrastive"},
       "needs the extractor's model"},
      {{"--mta.enabled", "--spans.train=s.h5", "--spans.model=m.h5",
        "--distill.method=contrastive"},
       "leave spans.train empty"},
      {{"--mode.enabled", "--mode.k=2", "--mode.top_k=3"}, "no more layers can be kept"},
      {{"--mode.enabled", "--mode.top_k=1", "--mode.router=uniform"}, "no largest weights"},
      {{"--mode.enabled", "--mode.router_init=uniform", "--mode.router=uniform"},
       "always gives 1/k"},
      {{"--mode.enabled", "--mode.k=1", "--mode.lambda=0.5"}, "no other one to teach"},
      {{"--mode.enabled", "--mode.k=1", "--mode.temperature=2"}, "no other one to teach"},
      {{"--mode.enabled", "--mode.light"}, "name one"},
      {{"--mode.enabled", "--mode.light", "--adapter.kind=lora", "--adapter.layers=1"},
       "chooses the adapter's layers itself"},
      {{"--mode.k=4"}, "mode.enabled = true, or = false"},
      {{"--mta.words=1"}, "mta.enabled = true, or = false"},
      {{"--fdd.temperature=2"}, "fdd.enabled = true, or = false"},
      {{"--fdd.enabled"}, "FDD follows a teacher"},
      {{"--fdd.enabled", "--fdd.student_layers=4"}, "between key layers"},
      {{"--fdd.enabled", "--fdd.trajectory_weight=0", "--fdd.derivative_weight=0"},
       "at least one weight"},
      {{"--distill.method=mixed"}, "nothing but the divergence is learnt"},
      {{"--distill.lambda=0.3"}, "lambda is read only with method = mixed"},
      {{"--distill.method=mixed", "--distill.capacity=9"}, "read only with method = adaptive"},
      {{"--distill.method=adaptive"}, "set eval_every"},
      {{"--distill.method=adaptive", "--distill.capacity=3"}, "at least a micro-batch"},
      {{"--distill.max_new=9"}, "text is generated only with"},
      {{"--distill.method=mixed", "--distill.temperature=0", "--distill.top_k=5"},
       "give a temperature greater than 0"},
      {{"--batch.corpus_micro_batches=2"}, "no corpus to take micro-batches from"},
      {{"--loss.corpus_weight=2"}, "no corpus to weigh"},
      {{"--data.corpus=c.h5", "--loss.corpus_weight=0"}, "would be read and add nothing"},
      {{"--schedule.warmup_steps=11", "--run.steps=10"}, "must end within the run"},
      {{"--schedule.kind=constant", "--schedule.decay_steps=1"}, "does not decay"},
      {{"--schedule.kind=wsd"}, "length of its final decay"},
      {{"--run.eval_every=5"}, "token file in data.eval"},
      {{"--batch.micro_batches=1", "--grid.dp=2"}, "at least one whole micro-batch"},
  };
  for (const BadCase& bad : cases)
    expect_error(
        ErrorKind::config, [&] { parse(bad.arguments); }, bad.expected);
}

// A recipe's method that is switched off for an ablation keeps its other keys.
TEST(TrainOptions, AMethodIsSwitchedOffByOneOption) {
  const RecipeFile recipe("[mode]\nenabled = true\nk = 4\n");
  EXPECT_TRUE(parse({recipe.path()}).config.mode.enabled);
  EXPECT_FALSE(parse({recipe.path(), "--mode.enabled=false"}).config.mode.enabled);
  const RecipeFile forgotten("[mode]\nk = 4\n");
  expect_error(
      ErrorKind::config, [&] { parse({forgotten.path()}); }, "mode.enabled = false (default)",
      "mode.k = 4 (" + forgotten.path() + ":2)");
}

TEST(TrainOptions, ValidateSaysTheSameWithoutATable) {
  train::TrainConfig config = parse({}).config;
  EXPECT_NO_THROW(train::validate(config));
  config.loss.kd_weight = 1.0;
  expect_error(
      ErrorKind::config, [&] { train::validate(config); }, "loss.kd_weight, teacher.path: ");
}

TEST(TrainOptions, ADistillationIsAccepted) {
  const auto config =
      parse_train({"--run.dir=out", "--data.train=t.h5", "--teacher.path=t", "--loss.kd_weight=1",
                   "--model.init=teacher_layers", "--model.teacher_layers=every:3", "--grid.pp=2"})
          .config;
  EXPECT_EQ(config.model.teacher_layers.every, 3);
  EXPECT_EQ(config.grid.ranks(), 2);
}

TEST(TrainOptions, AlignmentAndDynamicsAreAccepted) {
  const auto config = parse({"--teacher.path=t", "--mta.enabled", "--spans.train=s.h5",
                             "--mta.student_layers=6,9,12", "--mta.teacher_layers=24,36,48",
                             "--mta.words=2", "--mta.span_region=response", "--fdd.enabled",
                             "--fdd.student_layers=4", "--fdd.derivative_weight=0"})
                          .config;
  EXPECT_EQ(config.mta.teacher_layers, (std::vector<int>{24, 36, 48}));
  EXPECT_EQ(config.mta.words, 2);
  EXPECT_EQ(config.mta.span_region, methods::mta::SpanRegion::response);
  EXPECT_EQ(parse({"--teacher.path=t", "--mta.enabled", "--spans.model=m.h5",
                   "--mta.normalise=batch", "--batch.micro_batches=1"})
                .config.mta.normalise,
            methods::mta::PairNormalisation::batch);
}

TEST(TrainOptions, TheStudentsOwnAnswersAreAccepted) {
  const auto config =
      parse({"--teacher.path=t", "--loss.kd_weight=1", "--data.eval=e.h5", "--run.eval_every=5",
             "--data.corpus=c.h5", "--batch.corpus_micro_batches=2", "--distill.method=adaptive",
             "--distill.replay=increasing", "--distill.top_p=0.9", "--distill.capacity=64"})
          .config;
  EXPECT_EQ(config.distill.method, train::DistillMethod::adaptive);
  EXPECT_EQ(config.distill.replay, train::ReplaySchedule::increasing);
  EXPECT_TRUE(config.distill.generates());
  EXPECT_EQ(config.batch.corpus_micro_batches, 2);
}

TEST(ResumeChanges, HarmlessOnesPass) {
  const auto stored = parse({"--grid.pp=2", "--run.seed=4"}).config;
  const auto now = parse({"--grid.tp=2", "--run.seed=4", "--run.threads=2", "--run.dir=moved",
                          "--data.train=moved.h5"})
                       .config;
  const auto passed = check_resume(stored, now);
  ASSERT_EQ(passed.size(), 5u);
  EXPECT_EQ(passed[0].key, "run.dir");
  EXPECT_EQ(passed[0].was, "out");
  EXPECT_EQ(passed[0].is, "moved");
}

TEST(ResumeChanges, OthersNeedConsent) {
  const auto stored = parse({}).config;
  const Arguments changed = {"--optim.lr=0.01", "--batch.micro_batch=2"};
  expect_error(
      ErrorKind::config, [&] { check_resume(stored, parse(changed).config); },
      "optim.lr is '0.01' and was '1e-04'", "run.accept_changes=true",
      "batch.micro_batch is '2' and was '4'", "run.reset_data=true");
  Arguments consented = changed;
  consented.push_back("--run.accept_changes");
  expect_error(
      ErrorKind::config, [&] { check_resume(stored, parse(consented).config); },
      "batch.micro_batch");
  consented.push_back("--run.reset_data");
  EXPECT_NO_THROW(check_resume(stored, parse(consented).config));
}

TEST(NamePatterns, CoverWholeNames) {
  const train::NamePatterns names{{"model.embed*", "*.norm.weight"}};
  EXPECT_TRUE(names.match("model.embed_tokens.weight"));
  EXPECT_TRUE(names.match("model.layers.3.norm.weight"));
  EXPECT_FALSE(names.match("model.layers.3.mlp.up_proj.weight"));
  EXPECT_FALSE(train::NamePatterns{}.match("anything"));
}

}  // namespace
}  // namespace fathom::options
