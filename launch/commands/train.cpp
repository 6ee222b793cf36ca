#include "launch/options/train.h"

#include <iostream>
#include <optional>

#include "core/log.h"
#include "core/stop_signal.h"
#include "launch/backend_choice.h"
#include "launch/commands/commands.h"
#include "launch/commands/dry_run.h"
#include "launch/session.h"
#include "launch/watched_world.h"
#include "train/footprint.h"
#include "train/memory_report.h"
#include "train/shared_tokenizer.h"
#include "train/trainer.h"

namespace fathom::launch {
namespace {

// Micro-batches seldom have all the tokens that they may have: this is no reason to stop.
void warn_of_memory(const train::TrainConfig& config, const train::EnginePlan& plan,
                    const comm::ProcessGrid& grid, const Device& device) {
  const double needed = train::footprint(config, plan, grid.place().pp).total();
  const auto limit = static_cast<double>(device.memory().limit);
  if (needed > limit)
    log_warn("full micro-batches would need ", needed / (1 << 20), " MiB and the device gives ",
             limit / (1 << 20), " MiB (run.memory_limit_gib); --dry-run shows what takes them");
}

int train(comm::MpiSession& session, const train::TrainConfig& config, bool memory,
          const train::EnginePlan& plan) {
  DeviceRequest request = device_request(config.run);
  request.show = true;
  const auto device = open_device(session, request);
  WatchedWorld watched(session, *device, config.run.watchdog_seconds, config.run.dir);
  comm::ProcessGrid grid(
      watched.world(), {.dp = config.grid.dp, .pp = config.grid.pp, .tp = config.grid.tp}, *device);
  warn_of_memory(config, plan, grid, *device);
  train::TrainerHooks hooks;
  hooks.program = "fathom " FATHOM_VERSION;
  hooks.config_text = options::to_text(config);
  hooks.watchdog = watched.watchdog();
  hooks.look = memory;
  hooks.check_resume = [&](const std::string& stored) {
    const auto was = options::config_from_text(stored, "the checkpoint's recipe");
    for (const options::Change& change : options::check_resume(was, config))
      log_info("changed since the checkpoint: ", change.key, " was ", change.was, ", is ",
               change.is);
  };
  std::optional<train::Trainer> trainer;
  {
    const comm::Watchdog::Phase loading(hooks.watchdog, "load",
                                        comm::Watchdog::Seconds(config.run.watchdog_load_seconds));
    trainer.emplace(*device, grid, config, plan, std::move(hooks));
  }
  if (memory) {
    trainer->step();
    std::cout << train::memory_report(trainer->engine());
    return 0;
  }
  return trainer->run() == train::RunEnd::stopped ? kStoppedExitCode : 0;
}

}  // namespace

int train_command(const Arguments& arguments) {
  const options::TrainRequest request = options::parse_train(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  if (!request.dry_run) {
    logger().set_quiet(request.config.run.quiet);
    choose_backend(request.config.run.device, request.config.run.precision);
    catch_stop_signals();  // before anything that takes long
  }
  const train::EnginePlan plan = train::make_engine_plan(request.config);
  if (request.dry_run) {
    train::require_shared_tokenizer(request.config);
    std::cout << dry_run(request.config, plan);
    return 0;
  }
  const train::RunConfig& run = request.config.run;
  const double start = run.watchdog_seconds > 0 ? run.watchdog_load_seconds : 0;
  return run_distributed(request.config.grid.ranks(), start, [&](comm::MpiSession& session) {
    return train(session, request.config, request.memory, plan);
  });
}

}  // namespace fathom::launch
