#include "launch/commands/dry_run.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "pipeline/planner.h"
#include "pipeline/schedule.h"
#include "train/footprint.h"
#include "train/mode_report.h"
#include "train/state_losses.h"
#include "train/state_routes.h"

namespace fathom::launch {
namespace {

std::string mib(double bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << bytes / (1 << 20);
  return out.str();
}

void print_memory(std::ostream& out, const train::TrainConfig& config,
                  const train::EnginePlan& plan) {
  out << "memory of a rank, MiB (micro-batch of " << config.batch.micro_batch << " x "
      << plan.context << " tokens at most):\n"
      << "stage      weights  gradients  moments  teacher  activations     head     save     "
         "total\n";
  for (int stage = 0; stage < config.grid.pp; ++stage) {
    const train::Footprint f = train::footprint(config, plan, stage);
    out << std::setw(5) << stage << std::setw(13) << mib(f.weights) << std::setw(11)
        << mib(f.gradients) << std::setw(9) << mib(f.moments) << std::setw(9) << mib(f.teacher)
        << std::setw(13) << mib(f.activations) << std::setw(9) << mib(f.head) << std::setw(9)
        << mib(f.save) << std::setw(10) << mib(f.total()) << "\n";
  }
  out << "(save: the copy that a checkpoint is written from; with GPUs it is in the host's "
         "memory)\n";
}

// What losses on hidden states add to the messages between stages.
void print_routes(std::ostream& out, const train::TrainConfig& config,
                  const train::EnginePlan& plan) {
  if (train::state_sites(plan).empty()) return;
  const train::StateRoutes routes = train::state_routes(plan);
  for (std::size_t k = 0; k < plan.mta_layers.size(); ++k)
    out << "mta: student state " << plan.mta_layers[k].student << ", teacher state "
        << plan.mta_layers[k].teacher << ", on stage " << routes.stage_of_site(k) << "\n";
  const double tokens =
      static_cast<double>(config.batch.micro_batch) * static_cast<double>(plan.context);
  for (const train::StateRoute& route : routes.routes()) {
    const bool student = route.state.side == methods::Side::student;
    const double bytes =
        4 * tokens * static_cast<double>(student ? plan.student.hidden : plan.teacher->hidden);
    out << "moves: state " << route.state.layer << " of the " << (student ? "student" : "teacher")
        << " from stage " << route.from << " to " << route.to << ", " << mib(bytes)
        << " MiB a micro-batch and boundary" << (student ? ", and its gradient back" : "") << "\n";
  }
  if (routes.routes().empty()) out << "key states: none has to leave its stage\n";
}

// The bank of controls, of which each stage holds a copy and a gradient beside its own.
void print_bank(std::ostream& out, const train::TrainConfig& config,
                const train::EnginePlan& plan) {
  const methods::moc::Spec& moc = plan.moc;
  if (!moc.enabled) return;
  std::int64_t most = 0;
  for (int stage = 0; stage < config.grid.pp; ++stage)
    most = std::max<std::int64_t>(most, plan.student_layers.count(stage));
  const std::int64_t exchanged =
      moc.site_count() *
      methods::moc::exchange_bytes(config.grid.pp, most, moc.rank, plan.student.hidden);
  out << "moc: " << moc.site_count() * plan.student.layers << " controls of "
      << 8 * moc.rank * plan.student.hidden << " bytes and " << moc.gate_count() << " gate"
      << (moc.gate_count() > 1 ? "s" : "") << " of "
      << 4 * plan.student.hidden * plan.student.layers << " bytes; the bank receives " << exchanged
      << " bytes a rank and step, and as many of gradients";
  if (config.grid.pp > 1)
    out << "; it takes "
        << mib(2.0 * static_cast<double>(exchanged) * config.grid.pp / (config.grid.pp - 1))
        << " MiB with its gradients";
  out << "\n";
}

// A stage's time in units of the multiply-adds of its layers; the share of the bubble needs no
// more.
pipeline::StepPlan plan_pipeline(const train::TrainConfig& config, const train::EnginePlan& plan) {
  const std::int64_t tokens = std::int64_t{config.batch.micro_batch} * plan.context;
  std::vector<pipeline::StageCost> costs;
  for (int stage = 0; stage < config.grid.pp; ++stage)
    costs.push_back(train::stage_cost(config, plan, stage, tokens));
  const int slots = (config.batch.micro_batches + config.grid.dp - 1) / config.grid.dp;
  return pipeline::plan_step(pipeline::all_schedules(config.grid.pp, slots), costs,
                             {.latency_s = 0, .bytes_per_s = 1e12});
}

}  // namespace

std::string dry_run(const train::TrainConfig& config, const train::EnginePlan& plan) {
  std::ostringstream out;
  out << "grid: dp " << config.grid.dp << " x pp " << config.grid.pp << " x tp " << config.grid.tp
      << " = " << config.grid.ranks() << " ranks\n"
      << "student: " << model::to_string(plan.student.family) << ", " << plan.student.parameters()
      << " parameters, layers by stage " << pipeline::to_string(plan.student_layers) << "\n";
  if (plan.teacher)
    out << "teacher: " << model::to_string(plan.teacher->family) << ", "
        << plan.teacher->parameters() << " parameters, layers by stage "
        << pipeline::to_string(*plan.teacher_layers) << "\n";
  if (plan.mode)
    out << train::mode_parameters(plan) << "\n" << train::mode_transport_text(config, plan);
  print_routes(out, config, plan);
  print_bank(out, config, plan);
  print_memory(out, config, plan);
  const pipeline::StepPlan step = plan_pipeline(config, plan);
  out << "heads' work: " << std::fixed << std::setprecision(1) << 100 * plan.label_share
      << "% of the tokens are supervised\n"
      << "pipeline of " << config.batch.micro_batches << " micro-batches a step, bubble by stage:";
  for (const pipeline::StagePlan& stage : step.stages)
    out << " " << std::fixed << std::setprecision(1) << 100 * stage.bubble_share << "%";
  out << "\nmessages between stages: " << step.messages.size() << " a step in each pipeline, "
      << mib(static_cast<double>(step.total_bytes())) << " MiB\n";
  double largest = 0;
  for (int stage = 0; stage < config.grid.pp; ++stage)
    largest = std::max(largest, train::footprint(config, plan, stage).gradients);
  if (config.grid.dp > 1)
    out << "data-parallel sum: " << mib(largest) << " MiB of gradients a rank at most\n";
  return out.str();
}

}  // namespace fathom::launch
