#include "launch/options/diagnose_depth.h"

#include <iostream>

#include "comm/stop_vote.h"
#include "core/log.h"
#include "diagnose/depth/collector.h"
#include "diagnose/depth/report.h"
#include "launch/backend_choice.h"
#include "launch/commands/diagnose.h"
#include "launch/commands/source.h"
#include "launch/session.h"
#include "launch/watched_world.h"
#include "train/trainer.h"

namespace fathom::launch {
namespace {

// Layers that do not vote yet are looked at through the model's final norm.
SourcePlan plan_of(const options::DiagnoseDepthRequest& request) {
  SourcePlan source = open_source(request.source, request.ranks);
  train::EnginePlan& plan = source.plan;
  const auto layers = static_cast<int>(plan.student.layers);
  const std::string name = request.source.model + request.source.checkpoint;
  require(request.context <= plan.student.max_positions, ErrorKind::config, "--context ",
          request.context, " is more than the model's ", plan.student.max_positions, " positions");
  if (plan.mode) {
    require(request.layers == 0, ErrorKind::config, "--layers ", request.layers, ": the last ",
            plan.mode->k, " layers of ", name, " vote, and those are looked at; leave it out");
    require(plan.mode->k > 1, ErrorKind::config, name,
            ": only the last layer votes, and there is nothing to compare it with");
    return source;
  }
  require(methods::mode::has_late_states(plan.student), ErrorKind::config, name,
          ": this model has its norms behind the residual sums and none before the head, so that "
          "its layers cannot be heard one by one; models with norms in front of each layer can");
  require(request.layers != 1 && request.layers <= layers, ErrorKind::config, "--layers ",
          request.layers, ": give 2 to ", layers, ", the layers of ", name, ", or 0 for half");
  plan.set_mode({.k = request.layers > 0 ? request.layers : std::max(2, layers / 2),
                 .router = methods::mode::Router::uniform,
                 .norms = methods::mode::Norms::shared},
                "");
  return source;
}

// Collective over the grid; the same on every rank.
diagnose::depth::DepthSums look(train::Engine& engine, const data::Dataset& set,
                                const options::DiagnoseDepthRequest& request) {
  comm::ProcessGrid& grid = engine.grid();
  const int k = engine.plan().mode->k;
  diagnose::depth::DepthCollector collector(engine.student(), engine.plan().student.layers - k + 1,
                                            static_cast<std::size_t>(k));
  const data::EvalBatches batches(set, request.batch,
                                  std::int64_t{request.batches} * request.batch);
  const auto share = data::share_of(batches.micro_batches(), grid.place().dp, grid.shape().dp);
  engine.work().vote_tap = [&](int slot, const methods::mode::Votes& votes, const Tensor& labels) {
    collector.add(engine.work().batches()[static_cast<std::size_t>(slot)], votes, labels);
  };
  for (std::int64_t slot = 0; slot < share.slots; ++slot) {
    comm::stop_if_asked(grid.world());
    engine.evaluate({batches.slot(share, slot)});
  }
  engine.work().vote_tap = nullptr;
  diagnose::depth::DepthSums sums = collector.sums();
  sums.reduce(grid);
  return sums;
}

int diagnose(comm::MpiSession& session, const options::DiagnoseDepthRequest& request,
             const SourcePlan& source) {
  const auto device = open_device(session, device_request(request.ranks));
  WatchedWorld watched = watch_calls(session, *device, request.ranks.watchdog_seconds);
  comm::ProcessGrid grid(watched.world(),
                         {.dp = request.ranks.dp, .pp = request.ranks.pp, .tp = request.ranks.tp},
                         *device);
  const model::ModelSpec& model = source.plan.student;
  const bool first = session.world().rank() == 0;
  const auto set = train::open_dataset(
      request.data,
      {.context = request.context > 0 ? request.context : model.max_positions,
       .policy = request.overlong,
       .vocab = model.vocab,
       .tokenizer = train::read_model_tokenizer(source.tokenizer, request.any_tokenizer || !first),
       .check_all = first});
  train::Engine engine(*device, grid, source.config, source.plan, false);
  load_source(engine, source);
  const auto sums = look(engine, *set, request);
  if (!first) return 0;
  diagnose::Report report =
      diagnose::depth::report_of(sums, request.rule, source.plan.mode->routed());
  report.facts.insert(report.facts.begin(),
                      {"model", request.source.model + request.source.checkpoint});
  diagnose::write_report(request.output, report);
  std::cout << diagnose::summary_text(report);
  log_info("wrote ", request.output);
  return report.exit_code();
}

}  // namespace

int diagnose_depth(const options::Arguments& arguments) {
  const options::DiagnoseDepthRequest request = options::parse_diagnose_depth(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  choose_backend(request.ranks.device, request.ranks.precision);
  catch_stop_signals();
  const SourcePlan source = plan_of(request);
  const int ranks = request.ranks.tp * request.ranks.pp * request.ranks.dp;
  return run_distributed(ranks, request.ranks.watchdog_seconds, [&](comm::MpiSession& session) {
    return diagnose(session, request, source);
  });
}

}  // namespace fathom::launch
