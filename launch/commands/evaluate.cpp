#include "launch/options/evaluate.h"

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "eval/token_metrics.h"
#include "launch/commands/commands.h"
#include "launch/commands/source.h"
#include "launch/session.h"
#include "train/trainer.h"

namespace fathom::launch {
namespace {

void print(const options::EvaluateRequest& request, const eval::TokenMetrics& metrics) {
  const nlohmann::json json = {{"loss", metrics.loss()},
                               {"perplexity", metrics.perplexity()},
                               {"accuracy", metrics.accuracy()},
                               {"tokens", metrics.tokens},
                               {"data", request.data}};
  std::cout << json.dump(2) << "\n";
  if (!request.output.empty()) files::write_text_atomically(request.output, json.dump(2) + "\n");
}

int evaluate(comm::MpiSession& session, const options::EvaluateRequest& request,
             const SourcePlan& source, std::int64_t context) {
  choose_threads(session, request.ranks.threads);
  const auto device = make_cpu_device();
  comm::ProcessGrid grid(session.world(),
                         {.dp = request.ranks.dp, .pp = request.ranks.pp, .tp = request.ranks.tp});
  const bool first = session.world().rank() == 0;
  const auto set = train::open_dataset(request.data, context, request.overlong,
                                       source.plan.student.vocab, first);
  train::Engine engine(*device, grid, source.config, source.plan, false);
  load_source(engine, source);
  const data::EvalBatches batches(*set, request.batch,
                                  std::int64_t{request.batches} * request.batch);
  const auto share = data::share_of(batches.micro_batches(), grid.place().dp, grid.shape().dp);
  std::vector<data::MicroBatch> slots;
  for (std::int64_t slot = 0; slot < share.slots; ++slot)
    slots.push_back(batches.slot(share, slot));
  const model::LossSums sums = engine.evaluate(std::move(slots));
  if (first) print(request, {sums.cross_entropy, sums.tokens, sums.correct});
  return 0;
}

}  // namespace

int evaluate_command(const Arguments& arguments) {
  const options::EvaluateRequest request = options::parse_evaluate(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  const SourcePlan source = open_source(request.source, request.ranks);
  const std::int64_t most = source.plan.student.max_positions;
  require(request.context <= most, ErrorKind::config, "--context ", request.context,
          " is more than the model's ", most, " positions");
  const std::int64_t context = request.context > 0 ? request.context : most;
  const int ranks = request.ranks.tp * request.ranks.pp * request.ranks.dp;
  return run_distributed(ranks, [&](comm::MpiSession& session) {
    return evaluate(session, request, source, context);
  });
}

}  // namespace fathom::launch
