#include "launch/options/probe.h"

#include <filesystem>
#include <iostream>

#include "checkpoints/safetensors.h"
#include "comm/stop_vote.h"
#include "core/log.h"
#include "launch/backend_choice.h"
#include "launch/commands/commands.h"
#include "launch/session.h"
#include "launch/watched_world.h"
#include "train/lr_schedule.h"
#include "train/probe.h"
#include "train/state_losses.h"

namespace fathom::launch {
namespace {

using Tensors = std::map<std::string, train::WholeTensor>;

void write(const std::filesystem::path& path, const Tensors& tensors,
           const train::PaddedBatch& batch) {
  std::vector<checkpoints::SafetensorsPlan> plan;
  for (const auto& [name, tensor] : tensors) {
    checkpoints::Shape shape;
    const bool rows_of_tokens = name == "logits" || name.rfind("hidden.", 0) == 0;
    if (rows_of_tokens) {
      shape = {batch.rows, batch.length, tensor.shape[1]};
    } else {
      for (int d = 0; d < tensor.shape.dims(); ++d) shape.push_back(tensor.shape[d]);
    }
    plan.push_back({name, checkpoints::Element::f32, shape});
  }
  checkpoints::write_safetensors(
      path, std::move(plan),
      [&](const checkpoints::SafetensorsPlan& entry, checkpoints::SafetensorsSink& sink) {
        sink.put(tensors.at(entry.name).values);
      });
}

void write_results(const options::ProbeRequest& request, train::ProbeResult result,
                   const train::PaddedBatch& batch) {
  std::filesystem::create_directories(request.output);
  Tensors outputs, gradients;
  for (auto& [name, tensor] : result.tensors) {
    if (!request.hidden && name.rfind("hidden.", 0) == 0) continue;
    (name.rfind("grad.", 0) == 0 ? gradients : outputs).emplace(name, std::move(tensor));
  }
  const std::filesystem::path folder(request.output);
  write(folder / "expected.safetensors", outputs, batch);
  if (request.gradients) write(folder / "grads.safetensors", gradients, batch);
}

void take_steps(train::Engine& engine, const train::TrainConfig& config,
                const train::PaddedBatch& batch, int steps) {
  const std::int64_t vocab = engine.student().spec().vocab;
  const data::RoleCounts counts(
      data::count(data::from_padded(batch.ids, batch.mask, batch.labels, batch.rows, batch.length,
                                    static_cast<std::int32_t>(vocab))));
  engine.optimizer().clear_gradients();
  for (int step = 0; step <= steps; ++step) {
    comm::stop_if_asked(engine.grid().world());
    const auto sums =
        engine.forward_backward(train::rows_of_rank(batch, engine.grid(), vocab), counts, step);
    const double norm = engine.optimizer().gradient_norm(engine.grid());
    if (engine.grid().world().rank() == 0)
      std::cout << "step " << step << "  loss " << engine.objective(sums) << "  grad_norm " << norm
                << "\n";
    if (step == steps) break;
    const double lr = config.optim.lr * train::lr_factor(config.schedule, step, std::max(1, steps));
    engine.update(lr, train::clip_factor(norm, config.optim.clip));
  }
}

// It says nothing of its progress, so that a call may last as long as an evaluation.
double seconds_of(const train::RunConfig& run) {
  return run.watchdog_seconds > 0 ? run.watchdog_eval_seconds : 0;
}

// Random zeros would be in everything that is to be compared.
void leave_out_dropout(train::TrainConfig& config, train::EnginePlan& plan) {
  config.dropout = {};
  config.adapter.spec.dropout = plan.adapter.dropout = 0;
}

int probe(comm::MpiSession& session, const options::ProbeRequest& request,
          const train::EnginePlan& plan) {
  const train::TrainConfig& config = request.config;
  const auto device = open_device(session, device_request(config.run));
  WatchedWorld watched = watch_calls(session, *device, seconds_of(config.run));
  comm::ProcessGrid grid(
      watched.world(), {.dp = config.grid.dp, .pp = config.grid.pp, .tp = config.grid.tp}, *device);
  const bool training = request.gradients || request.steps > 0 || train::needs_training_pass(plan);
  // No spans: recipes with MTA, which needs them, are refused.
  train::Engine engine(*device, grid, config, plan, training,
                       train::make_state_losses(*device, grid, config, plan, {}));
  engine.load_initial_weights();
  const train::PaddedBatch batch = train::read_padded_batch(request.input);
  comm::stop_if_asked(watched.world());
  train::ProbeResult result = train::probe(engine, batch, training);
  if (session.world().rank() == 0) write_results(request, std::move(result), batch);
  if (request.steps > 0) take_steps(engine, config, batch, request.steps);
  log_info("wrote ", request.output);
  return 0;
}

}  // namespace

int probe_command(const Arguments& arguments) {
  options::ProbeRequest request = options::parse_probe(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  choose_backend(request.config.run.device, request.config.run.precision);
  catch_stop_signals();
  train::EnginePlan plan = train::make_engine_plan(request.config);
  leave_out_dropout(request.config, plan);
  return run_distributed(request.config.grid.ranks(), seconds_of(request.config.run),
                         [&](comm::MpiSession& session) { return probe(session, request, plan); });
}

}  // namespace fathom::launch
