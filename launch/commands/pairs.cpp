#include "launch/options/pairs.h"

#include <algorithm>
#include <iostream>

#include "core/files.h"
#include "core/log.h"
#include "core/stop_signal.h"
#include "launch/backend_choice.h"
#include "launch/commands/commands.h"
#include "launch/commands/source.h"
#include "launch/session.h"
#include "launch/watched_world.h"
#include "train/answer_writer.h"
#include "train/make_source.h"
#include "train/pair_source.h"

namespace fathom::launch {
namespace {

using methods::distill::AnsweredPrompt;

struct Plan {
  options::PairsRequest request;
  SourcePlan student, teacher;
  std::int64_t context = 0;
};

Plan make_plan(const options::PairsRequest& request) {
  options::ModelSource teacher;
  teacher.model = request.teacher;
  teacher.dtype = request.source.dtype;
  Plan plan{request, open_source(request.source, request.ranks),
            open_source(teacher, request.ranks)};
  const std::int64_t most =
      std::min(plan.student.plan.student.max_positions, plan.teacher.plan.student.max_positions);
  require(request.context <= most, ErrorKind::config, "--context ", request.context,
          " is more than the ", most, " positions of the models");
  plan.context = request.context > 0 ? request.context : most;
  for (const auto& file :
       {train::pair_files(request.output).chosen, train::pair_files(request.output).rejected})
    require(!std::filesystem::exists(file), ErrorKind::io, file.string(),
            " is there already; give another --output, or remove it");
  return plan;
}

// Answers of one model, whose memory is free again afterwards. Collective.
std::vector<AnsweredPrompt> answers(Device& device, comm::ProcessGrid& grid, const Plan& plan,
                                    const SourcePlan& source, const data::Dataset& prompts,
                                    const char* who) {
  train::Engine engine(device, grid, source.config, source.plan, false);
  load_source(engine, source);
  generate::GeneratorOptions options;
  options.sampling = plan.request.sampling.with_seed(plan.request.seed);
  options.max_new = plan.request.sampling.max_new;
  options.batch = plan.request.batch;
  options.vote = engine.vote();
  train::AnswerWriter writer(prompts, options, engine.student(), grid);
  std::vector<train::AnswerWriter::Sample> samples;
  const std::int64_t count = plan.request.prompts > 0
                                 ? std::min<std::int64_t>(plan.request.prompts, prompts.records())
                                 : prompts.records();
  for (std::int64_t record = 0; record < count; ++record) samples.push_back({record, record});
  std::vector<AnsweredPrompt> texts = writer.write(samples);
  log_info(who, ": ", texts.size(), " of ", count, " prompts answered, ", writer.totals().tokens,
           " tokens in ", writer.totals().seconds, " s");
  return texts;
}

// Drops the answers to prompts that the other model did not answer; both are in the same order.
void keep_common(std::vector<AnsweredPrompt>& texts, const std::vector<AnsweredPrompt>& others) {
  const auto before = [](const AnsweredPrompt& a, const AnsweredPrompt& b) {
    return a.sample < b.sample;
  };
  std::erase_if(texts, [&](const AnsweredPrompt& text) {
    return !std::binary_search(others.begin(), others.end(), text, before);
  });
}

// Before the work that would be lost.
void prepare_output(const std::filesystem::path& folder) {
  std::error_code ignored;  // it shows in what follows
  std::filesystem::create_directories(folder, ignored);
  const train::PairFiles pairs = train::pair_files(folder);
  for (const auto& file : {pairs.chosen, pairs.rejected}) files::check_writable(file);
}

void write(const std::filesystem::path& path, const std::vector<AnsweredPrompt>& texts,
           const data::TokenFile& prompts) {
  data::TokenFileWriter writer(path, prompts.info());
  for (const AnsweredPrompt& text : texts)
    writer.append(text.ids, text.prompt_length, prompts.source(text.record));
  writer.finish(prompts.info().source);
}

int run(comm::MpiSession& session, const Plan& plan) {
  const options::Ranks& ranks = plan.request.ranks;
  const auto device = open_device(session, device_request(ranks));
  WatchedWorld watched = watch_calls(session, *device, ranks.watchdog_seconds);
  comm::ProcessGrid grid(watched.world(), {.dp = ranks.dp, .pp = ranks.pp, .tp = ranks.tp},
                         *device);
  const bool first = session.world().rank() == 0;
  if (first) {
    train::require_shared_tokenizer(plan.student.tokenizer, plan.teacher.tokenizer, "--teacher");
    prepare_output(plan.request.output);
  }
  // Only the prompts are used: a long response does not matter.
  const auto prompts = train::open_dataset(
      plan.request.tokens,
      {.context = plan.context,
       .policy = data::Overlong::truncate,
       .vocab = std::min(plan.student.plan.student.vocab, plan.teacher.plan.student.vocab),
       .tokenizer = train::read_model_tokenizer(plan.student.tokenizer,
                                                plan.request.any_tokenizer || !first),
       .check_all = first});
  auto chosen = answers(*device, grid, plan, plan.teacher, *prompts, "teacher");
  auto rejected = answers(*device, grid, plan, plan.student, *prompts, "student");
  keep_common(chosen, rejected);
  keep_common(rejected, chosen);
  require(!chosen.empty(), ErrorKind::data, plan.request.tokens,
          ": there is no prompt that both models answered");
  if (!first) return 0;
  const train::PairFiles files = train::pair_files(plan.request.output);
  write(files.chosen, chosen, prompts->file());
  write(files.rejected, rejected, prompts->file());
  log_info("wrote ", chosen.size(), " pairs to ", plan.request.output);
  return 0;
}

}  // namespace

int pairs_command(const Arguments& arguments) {
  const options::PairsRequest request = options::parse_pairs(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  choose_backend(request.ranks.device, request.ranks.precision);
  catch_stop_signals();
  const Plan plan = make_plan(request);
  const options::Ranks& ranks = request.ranks;
  return run_distributed(ranks.tp * ranks.pp * ranks.dp, ranks.watchdog_seconds,
                         [&](comm::MpiSession& session) { return run(session, plan); });
}

}  // namespace fathom::launch
