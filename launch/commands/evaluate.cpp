#include "launch/options/evaluate.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "comm/launch_environment.h"
#include "core/files.h"
#include "core/stop_signal.h"
#include "launch/backend_choice.h"
#include "launch/commands/answers.h"
#include "launch/commands/commands.h"
#include "launch/commands/method_facts.h"
#include "launch/commands/source.h"
#include "launch/session.h"
#include "launch/watched_world.h"
#include "train/evaluation.h"
#include "train/make_source.h"

namespace fathom::launch {
namespace {

using nlohmann::json;

// What is to be done, known before memory is taken.
struct EvaluationPlan {
  SourcePlan source;
  std::int64_t context = 0;
  std::optional<AnswerPlan> answers;
};

void set_route_scope(const options::EvaluateRequest& request, SourcePlan& source) {
  using methods::moc::Scope;
  if (request.route_scope == options::RouteScope::stored) return;
  methods::moc::Spec& moc = source.plan.moc;
  require(
      moc.enabled, ErrorKind::config,
      "--route-scope: this model has no mixture of control, whose gates could decide otherwise");
  moc.eval_scope =
      request.route_scope == options::RouteScope::sequence ? Scope::sequence : Scope::microbatch;
}

EvaluationPlan make_plan(const options::EvaluateRequest& request) {
  EvaluationPlan plan{open_source(request.source, request.ranks), 0, std::nullopt};
  const std::int64_t most = plan.source.plan.student.max_positions;
  require(request.context <= most, ErrorKind::config, "--context ", request.context,
          " is more than the model's ", most, " positions");
  plan.context = request.context > 0 ? request.context : most;
  set_route_scope(request, plan.source);
  generate::check(request.answer.exit, plan.source.plan.mode ? &*plan.source.plan.mode : nullptr);
  // Only rank 0 writes, and perhaps only its machine has the folders.
  if (comm::launched_rank() == 0)
    for (const std::string& file : {request.answer.answers, request.answer.judge, request.output})
      if (!file.empty()) files::check_writable(file);
  if (!request.answer.prompts.empty())
    plan.answers = plan_answers(request, plan.source, plan.context);
  return plan;
}

// Collective.
json score_records(train::Engine& engine, const options::EvaluateRequest& request,
                   const data::Dataset& set) {
  const data::EvalBatches batches(set, request.batch,
                                  std::int64_t{request.batches} * request.batch);
  const eval::TokenMetrics metrics = train::evaluate(engine, batches);
  return {{"loss", metrics.loss()},
          {"perplexity", metrics.perplexity()},
          {"accuracy", metrics.accuracy()},
          {"tokens", metrics.tokens},
          {"data", request.data}};
}

int evaluate(comm::MpiSession& session, const options::EvaluateRequest& request,
             const EvaluationPlan& plan) {
  const auto device = open_device(session, device_request(request.ranks));
  WatchedWorld watched = watch_calls(session, *device, request.ranks.watchdog_seconds);
  comm::ProcessGrid grid(watched.world(),
                         {.dp = request.ranks.dp, .pp = request.ranks.pp, .tp = request.ranks.tp},
                         *device);
  const bool first = session.world().rank() == 0;
  std::unique_ptr<data::Dataset> set;
  if (!request.data.empty())
    set = train::open_dataset(
        request.data, {.context = plan.context,
                       .policy = request.overlong,
                       .vocab = plan.source.plan.student.vocab,
                       .tokenizer = train::read_model_tokenizer(plan.source.tokenizer,
                                                                request.any_tokenizer || !first),
                       .check_all = first});
  train::Engine engine(*device, grid, plan.source.config, plan.source.plan, false);
  load_source(engine, plan.source);
  json report = method_facts(plan.source);
  if (set) report.update(score_records(engine, request, *set));
  if (plan.answers) report["answers"] = answer_questions(engine, *plan.answers);
  if (!first) return 0;
  std::cout << report.dump(2) << "\n";
  if (!request.output.empty()) files::write_text_atomically(request.output, report.dump(2) + "\n");
  return 0;
}

}  // namespace

int evaluate_command(const Arguments& arguments) {
  const options::EvaluateRequest request = options::parse_evaluate(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  choose_backend(request.ranks.device, request.ranks.precision);
  catch_stop_signals();
  const EvaluationPlan plan = make_plan(request);
  const int ranks = request.ranks.tp * request.ranks.pp * request.ranks.dp;
  return run_distributed(ranks, request.ranks.watchdog_seconds, [&](comm::MpiSession& session) {
    return evaluate(session, request, plan);
  });
}

}  // namespace fathom::launch
