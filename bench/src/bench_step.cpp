// Times optimizer steps of the engine on random weights and tokens, every position supervised:
//
//   bench_step --student bench/configs/gpt2-small --batch 4 --length 256 --steps 4
//   bench_step --student models/smollm2 --adapter.kind=lora --adapter.rank=8
//   bench_step --student ... --teacher bench/configs/gpt2-medium --method mta
//   mpirun -np 2 bench_step ... --dp 2 --micro-batches 2
//
// Prints one JSON line; see reporting.h for --serve.

#include <random>

#include "bench/src/invented_spans.h"
#include "bench/src/program.h"
#include "bench/src/reporting.h"
#include "bench/src/step_options.h"
#include "comm/device_choice.h"
#include "comm/mpi/mpi_session.h"
#include "core/memory_usage.h"
#include "core/timer.h"
#include "data/batch_plan.h"
#include "kernels/backend.h"
#include "kernels/gemm.h"
#include "kernels/peak.h"
#include "train/engine.h"
#include "train/operation_counts.h"
#include "train/state_losses.h"

namespace fathom::bench {
namespace {

// Micro-batch j of the step: the same tokens on every grid.
data::MicroBatch random_micro_batch(const StepOptions& options, std::int64_t vocab,
                                    std::int64_t j) {
  data::MicroBatch batch;
  const std::int64_t sequences = options.config.batch.micro_batch;
  for (std::int64_t sample = j * sequences; sample < (j + 1) * sequences; ++sample) {
    std::mt19937 random(static_cast<std::uint32_t>(sample));
    std::uniform_int_distribution<std::int32_t> id(0, static_cast<std::int32_t>(vocab) - 1);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(options.length) + 1);
    for (std::int32_t& value : ids) value = id(random);
    data::append(batch, {.ids = ids, .prompt_length = 1}, sample, sample);
  }
  return batch;
}

class Bench {
 public:
  Bench(Device& device, comm::ProcessGrid& grid, const StepOptions& options)
      : device_(device),
        options_(options),
        plan_(train::make_engine_plan(options.config)),
        engine_(device, grid, options.config, plan_, true,
                train::make_state_losses(device, grid, options.config, plan_, invented_spans)) {
    engine_.load_student(model::RandomWeights(1));
    if (engine_.teacher() != nullptr)
      model::load_parameters(engine_.teacher()->parameters(), model::RandomWeights(2));
    for (int i = 0; i < options.warmup; ++i) step();
  }

  nlohmann::json report() {
    std::vector<double> seconds;
    for (int i = 0; i < options_.steps; ++i) seconds.push_back(step());
    nlohmann::json report = summary(seconds);
    const double flops =
        train::step_flops(plan_, options_.config, tokens(), tokens(), tokens() * options_.length);
    const double rate = flops / report["min"].get<double>() / 1e9;
    comm::Communicator& world = engine_.grid().world();
    report["tokens_per_s"] = static_cast<double>(tokens()) / report["median"].get<double>();
    report["flops"] = flops;
    report["gflops"] = rate;
    report["peak_gflops"] = sum_over_ranks(world, kernels::measure_gemm_peak_gflops(device_));
    report["loss"] = loss_;
    report["peak_rss_bytes"] = sum_over_ranks(world, static_cast<double>(memory_usage().peak));
    report["step_bytes"] = sum_over_ranks(world, static_cast<double>(step_bytes_));
    for (const auto& [operation, bytes] : engine_.work().saved_bytes())
      if (bytes > 0) report["saved_bytes"][operation] = bytes;
    report["trained_parameters"] = sum_over_ranks(world, trained_parameters());
    report["gemm_library"] = kernels::gemm_library();
    return report;
  }

 private:
  std::int64_t tokens() const {
    const train::BatchConfig& batch = options_.config.batch;
    return std::int64_t{batch.micro_batches} * batch.micro_batch * options_.length;
  }

  double trained_parameters() {
    std::int64_t count = 0;
    if (engine_.grid().place().dp == 0)
      for (const model::Parameter& parameter : engine_.student().parameters().parameters())
        if (parameter.owned && parameter.trainable()) count += parameter.value.elements();
    return static_cast<double>(count);
  }

  double step() {
    comm::ProcessGrid& grid = engine_.grid();
    std::vector<data::MicroBatch> slots;
    const auto share =
        data::share_of(options_.config.batch.micro_batches, grid.place().dp, grid.shape().dp);
    for (std::int64_t slot = 0; slot < share.slots; ++slot)
      slots.push_back(slot < share.count()
                          ? random_micro_batch(options_, plan_.loss_vocab, share.begin + slot)
                          : data::MicroBatch());
    device_.reset_peak();
    const std::size_t before = device_.memory().in_use;
    grid.world().barrier();
    const Timer timer;
    const model::LossSums sums = engine_.forward_backward(
        std::move(slots), data::RoleCounts({.label_tokens = tokens()}), count_++);
    const double norm = engine_.optimizer().gradient_norm(grid);
    const train::OptimConfig& optim = options_.config.optim;
    engine_.update(optim.lr, train::clip_factor(norm, optim.clip));
    device_.synchronize();
    grid.world().barrier();
    const double seconds = timer.seconds();
    step_bytes_ = device_.memory().peak - before;
    loss_ = sums.cross_entropy / static_cast<double>(tokens());
    return seconds;
  }

  Device& device_;
  StepOptions options_;
  train::EnginePlan plan_;
  train::Engine engine_;
  std::int64_t count_ = 0;
  std::size_t step_bytes_ = 0;  // the most that the last step had beside weights and moments
  double loss_ = 0;
};

void run(const StepOptions& options) {
  comm::MpiSession session;
  const train::GridConfig& shape = options.config.grid;
  const auto device = kernels::make_device(
      {.index = comm::choose_device(session.world(), session.node(), session.host()),
       .precision = options.config.run.precision});
  comm::ProcessGrid grid(session.world(), {.dp = shape.dp, .pp = shape.pp, .tp = shape.tp},
                         *device);
  Bench bench(*device, grid, options);
  print_reports(session.world(), options.serve, [&] { return bench.report(); });
}

}  // namespace
}  // namespace fathom::bench

int main(int argc, char** argv) {
  return fathom::bench::run_program("bench_step", argc, argv, fathom::bench::parse_step_options,
                                    fathom::bench::run);
}
