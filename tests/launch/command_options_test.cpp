#include <gtest/gtest.h>

#include "launch/options/checkpoint.h"
#include "launch/options/commands.h"
#include "launch/options/data_commands.h"
#include "launch/options/evaluate.h"
#include "launch/options/generate.h"
#include "launch/options/probe.h"
#include "launch/options/spans.h"
#include "tests/support/expect_error.h"

namespace fathom::options {
namespace {

using testing::expect_error;

TEST(Generate, ReadsItsOptions) {
  const auto r = parse_generate({"--model=m", "--prompt=a # b", "--temperature=0.7", "--top-k=40",
                                 "--top-p", "0.9", "--no-repeat-ngram=3", "--stream", "--tp=2",
                                 "--max-new=5", "--chat", "--seed=8"});
  EXPECT_EQ(r.source.model, "m");
  EXPECT_EQ(r.prompt, "a # b");
  EXPECT_EQ(r.sampling.temperature, 0.7);
  EXPECT_EQ(r.sampling.top_k, 40);
  EXPECT_EQ(r.sampling.top_p, 0.9);
  EXPECT_EQ(r.sampling.no_repeat_ngram, 3);
  EXPECT_EQ(r.sampling.max_new, 5);
  EXPECT_EQ(r.seed, 8);
  EXPECT_EQ(r.ranks.tp, 2);
  EXPECT_TRUE(r.stream);
  EXPECT_TRUE(r.chat);
}

TEST(Generate, RefusesContradictions) {
  const auto refused = [](const Arguments& arguments, const std::string& text) {
    expect_error(
        ErrorKind::usage, [&] { parse_generate(arguments); }, text);
  };
  refused({"--prompt=a"}, "give a model");
  refused({"--model=m", "--checkpoint=c", "--prompt=a"}, "exclude each other");
  refused({"--model=m"}, "exactly one of --prompt");
  refused({"--model=m", "--prompt=a", "--prompt-file=f"}, "exactly one of --prompt");
  refused({"--model=m", "--prompt=a", "--system=s"}, "--system needs --chat");
  refused({"--model=m", "--prompt=a", "--stream", "--batch=2"}, "one prompt at a time");
  refused({"--model=m", "--prompt=a", "--top-k=3"}, "--temperature greater than 0");
  expect_error(
      ErrorKind::config,
      [] {
        parse_generate({"--model=m", "--prompt=a", "--top-p=0"});
      },
      "top-p = '0'", "greater than 0 and at most 1");
  expect_error(
      ErrorKind::config,
      [] {
        parse_generate({"--model=m", "--prompt=a", "--max_new=3"});
      },
      "'max_new'", "'max-new'");
}

TEST(Generate, ReadsEarlyExits) {
  const auto read = [](Arguments more) {
    more.insert(more.end(), {"--model=m", "--prompt=a"});
    return parse_generate(more).exit;
  };
  EXPECT_FALSE(read({}).early());
  const auto top = read({"--exit=topk", "--exit-topk=2", "--exit-flush=0"});
  EXPECT_EQ(top.policy, generate::ExitPolicy::topk);
  EXPECT_EQ(top.topk, 2);
  EXPECT_EQ(top.flush, 0);
  EXPECT_EQ(top.cache, generate::ExitCache::deferred);
  const auto share = read({"--exit=threshold", "--exit-threshold=0.8", "--exit-cache=copy"});
  EXPECT_EQ(share.policy, generate::ExitPolicy::threshold);
  EXPECT_EQ(share.threshold, 0.8);
  EXPECT_EQ(share.cache, generate::ExitCache::copy);

  const auto refused = [&](const Arguments& arguments, const std::string& text) {
    expect_error(
        ErrorKind::usage, [&] { read(arguments); }, text);
  };
  refused({"--exit=topk"}, "--exit=topk needs --exit-topk=<layers>");
  refused({"--exit=threshold"}, "--exit=threshold needs --exit-threshold=<share>");
  refused({"--exit-topk=1"}, "--exit-topk needs --exit=topk");
  refused({"--exit=topk", "--exit-topk=1", "--exit-threshold=0.5"}, "--exit-threshold needs");
  refused({"--exit-cache=off"}, "--exit-cache needs");
  refused({"--exit=topk", "--exit-topk=1", "--exit-cache=copy", "--exit-flush=4"},
          "--exit-cache=deferred");
  refused({"--exit-compare"}, "--exit-compare needs");
  expect_error(
      ErrorKind::config, [&] { read({"--exit=early"}); }, "early", "dense|topk|threshold");
}

TEST(Evaluate, ScoresRecordsOrAnswersOrBoth) {
  const auto r = parse_evaluate({"--checkpoint=c", "--data=d.h5", "--overlong=skip", "--dp=2"});
  EXPECT_EQ(r.overlong, train::Overlong::skip);
  EXPECT_EQ(r.ranks.dp, 2);
  const auto both = parse_evaluate({"--model=m", "--data=d.h5", "--prompts=p.jsonl", "--seeds=1,2",
                                    "--template=as-is", "--no-repeat-ngram=6", "--max-new=32"});
  EXPECT_EQ(both.answer.seeds, (std::vector<int>{1, 2}));
  EXPECT_EQ(both.answer.prompt_template, "as-is");
  EXPECT_EQ(both.answer.sampling.no_repeat_ngram, 6);
  EXPECT_EQ(both.answer.sampling.max_new, 32);
  EXPECT_EQ(both.answer.sampling.temperature, 1.0) << "the published evaluators sample";
  EXPECT_EQ(r.answer.seeds, (std::vector<int>{10, 20, 30, 40, 50}));
}

TEST(Evaluate, ATaskHasItsOwnDefaults) {
  const auto with = [](Arguments arguments) {
    arguments.insert(arguments.end(), {"--model=m", "--prompts=p"});
    return parse_evaluate(arguments).answer;
  };
  const AnswerOptions choices = with({"--task=commonsense"});
  EXPECT_EQ(choices.sampling.max_new, 32);
  EXPECT_EQ(choices.sampling.temperature, 0);
  EXPECT_EQ(choices.seeds, std::vector<int>{10});
  EXPECT_FALSE(choices.rouge);
  EXPECT_EQ(with({"--task=boolq,aqua"}).sampling.max_new, 256);
  const AnswerOptions own =
      with({"--task=piqa", "--temperature=0.5", "--max-new=8", "--seeds=1,2"});
  EXPECT_EQ(own.sampling.temperature, 0.5);
  EXPECT_EQ(own.sampling.max_new, 8);
  EXPECT_EQ(own.seeds.size(), 2u);
  expect_error(
      ErrorKind::config, [&] { with({"--task=boolq,arc"}); }, "task 'arc'", "arc_e");
  expect_error(
      ErrorKind::usage,
      [] {
        parse_evaluate({"--model=m", "--data=d", "--task=boolq"});
      },
      "--task needs questions");
}

TEST(Evaluate, RefusesContradictions) {
  const auto refused = [](Arguments arguments, const std::string& text) {
    arguments.push_back("--model=m");
    expect_error(
        ErrorKind::usage, [&] { parse_evaluate(arguments); }, text);
  };
  refused({}, "--data=<tokens.h5>, --prompts=<file>, or both");
  refused({"--data=d", "--answers=a"}, "--answers and --judge need questions");
  refused({"--prompts=p", "--judge-against=a"}, "--judge-against needs --judge");
  refused({"--prompts=p", "--seeds="}, "--seeds is empty");
  refused({"--prompts=p", "--seeds=3,3"}, "a seed twice");
  refused({"--prompts=p", "--temperature=0"}, "give one, as in --seeds=1");
  refused({"--prompts=p", "--temperature=0", "--seeds=1", "--top-k=3"}, "--temperature greater");
  refused({"--prompts=p", "--rouge=false"}, "--rouge=false scores nothing");
}

TEST(Checkpoint, TakesActionAndFolderByPosition) {
  const auto r = parse_checkpoint({"export", "runs/a", "--output=o", "--dtype=bf16"});
  EXPECT_EQ(r.action, CheckpointAction::export_folder);
  EXPECT_EQ(r.checkpoint, "runs/a");
  EXPECT_EQ(r.dtype, DType::bf16);
  EXPECT_EQ(parse_checkpoint({"verify", "c"}).action, CheckpointAction::verify);
  EXPECT_TRUE(parse_checkpoint({"inspect", "c", "--tensors"}).tensors);
  expect_error(
      ErrorKind::config,
      [] {
        parse_checkpoint({"verfy", "c"});
      },
      "action = 'verfy'", "inspect|verify|export");
  expect_error(
      ErrorKind::usage, [] { parse_checkpoint({"verify"}); }, "--path <folder> is required");
  expect_error(
      ErrorKind::usage,
      [] {
        parse_checkpoint({"export", "c"});
      },
      "needs --output");
  expect_error(
      ErrorKind::usage,
      [] {
        parse_checkpoint({"verify", "c", "--output=o"});
      },
      "belongs to checkpoint export");
}

TEST(DataCommands, ReadTheirOptions) {
  const auto i = parse_import({"x.gguf", "out"});
  EXPECT_EQ(i.source, "x.gguf");
  EXPECT_EQ(i.output, "out");
  const auto t = parse_tokenize({"a.jsonl", "t.h5", "--tokenizer=m", "--eval-fraction=0.1",
                                 "--eval-output=e.h5", "--template=chat"});
  EXPECT_EQ(t.eval_fraction, 0.1);
  EXPECT_EQ(t.prompt_template, "chat");
  const auto c = parse_convert({"a", "b", "--layers=every:3", "--dtype=bf16"});
  EXPECT_EQ(c.layers.every, 3);
  expect_error(
      ErrorKind::usage,
      [] {
        parse_tokenize({"a.jsonl", "t.h5", "--tokenizer=m", "--eval-fraction=0.1"});
      },
      "--eval-output", "--eval-first");
  EXPECT_EQ(parse_tokenize({"a.txt", "t.h5", "--tokenizer=m", "--block=64"}).block, 64);
}

TEST(Probe, TakesModelAndGridFromTheRecipeSections) {
  const auto r = parse_probe({"--input=i", "--output=o", "--model.path=m", "--gradients",
                              "--grid.tp=2", "--hidden=false"});
  EXPECT_EQ(r.config.model.path, "m");
  EXPECT_EQ(r.config.grid.tp, 2);
  EXPECT_TRUE(r.gradients);
  EXPECT_FALSE(r.hidden);
  // Neither data nor a run folder is asked for, but the model is.
  expect_error(
      ErrorKind::config,
      [] {
        parse_probe({"--input=i", "--output=o"});
      },
      "model.path = (empty) (default)");
  expect_error(
      ErrorKind::config,
      [] {
        parse_probe({"--input=i", "--output=o", "--model.path=m", "--teacher.path=t",
                     "--spans.train=s.h5", "--mta.enabled"});
      },
      "mta.enabled", "--mta.enabled=false");
}

TEST(Spans, EachActionHasItsOptions) {
  const SpansRequest build =
      parse_spans({"build", "--tokens=t.h5", "--tokenizer=gpt2", "--span-model=m.h5",
                   "--output=s.h5", "--vp=group", "--words=in-phrases", "--threads=3"});
  EXPECT_EQ(build.action, SpansAction::build);
  EXPECT_EQ(build.definition.verb, data::spans::VerbPhrases::group);
  EXPECT_EQ(build.definition.words, data::spans::Words::in_phrases);
  EXPECT_EQ(build.threads, 3);
  EXPECT_EQ(parse_spans({"show", "--span-model=m.h5", "--text=a dog"}).text, "a dog");
  EXPECT_EQ(parse_spans({"inspect", "s.h5"}).first, "s.h5");
  EXPECT_EQ(parse_spans({"compare", "a.h5", "b.h5"}).second, "b.h5");
  const auto refused = [](const Arguments& arguments, const auto&... parts) {
    expect_error(
        ErrorKind::usage, [&] { parse_spans(arguments); }, parts...);
  };
  refused({}, "action");
  refused({"build", "--tokens=t.h5", "--tokenizer=gpt2", "--output=s.h5"}, "--span-model",
          "fetch_span_model.sh");
  refused({"build", "--tokens=t.h5", "--tokenizer=gpt2", "--span-model=m.h5"}, "--output");
  refused({"build", "s.h5", "--tokens=t.h5", "--tokenizer=g", "--span-model=m", "--output=s.h5"},
          "'s.h5'");
  refused({"show", "--span-model=m.h5"}, "--text");
  refused({"inspect"}, "a span file");
  refused({"inspect", "a.h5", "b.h5"}, "'b.h5'");
  refused({"inspect", "a.h5", "--output=s.h5"}, "--output belongs to spans build");
  refused({"compare", "a.h5"}, "two span files");
}

TEST(Commands, EachHasAPageAndStandsInTheOverview) {
  for (const Command& command : commands()) {
    EXPECT_NE(overview().find("\n  " + std::string(command.name) + " "), std::string::npos);
    EXPECT_TRUE(command.usage.starts_with("fathom " + std::string(command.name)));
    EXPECT_TRUE(command.summary.ends_with('.'));
  }
  for (const auto& page : {parse_generate({"--help"}).reply, parse_evaluate({"-h"}).reply,
                           parse_checkpoint({"--help"}).reply, parse_import({"--help"}).reply,
                           parse_tokenize({"--help"}).reply, parse_convert({"--help"}).reply,
                           parse_probe({"--help"}).reply}) {
    ASSERT_TRUE(page.has_value());
    EXPECT_NE(page->find("Usage: fathom "), std::string::npos);
  }
}

TEST(Commands, AnUnknownOneNamesTheNearest) {
  expect_error(
      ErrorKind::usage, [] { fail_unknown_command("trian"); }, "'trian'", "'train'");
  expect_error(
      ErrorKind::usage, [] { fail_unknown_command("xyzzy"); }, "'xyzzy'", "--help");
}

}  // namespace
}  // namespace fathom::options
