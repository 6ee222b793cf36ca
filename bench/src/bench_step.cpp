// Times optimizer steps of the engine on random weights and tokens, every position supervised:
//
//   bench_step --student bench/configs/gpt2-small --batch 4 --length 256 --steps 4
//   mpirun -np 2 bench_step ... --dp 2 --micro-batches 2
//
// Prints one JSON line; see reporting.h for --serve.

#include <boost/program_options.hpp>
#include <random>

#include "bench/src/reporting.h"
#include "comm/mpi/mpi_session.h"
#include "core/memory_usage.h"
#include "core/timer.h"
#include "data/batch_plan.h"
#include "kernels/gemm.h"
#include "kernels/peak.h"
#include "launch/options/codec.h"
#include "train/engine.h"

namespace fathom::bench {
namespace {

namespace po = boost::program_options;

struct Options {
  train::TrainConfig config;
  std::int64_t length = 256;
  int warmup = 1, steps = 4;
  bool serve = false;
};

// Empty when only help was asked for.
std::optional<Options> parse(int argc, char** argv) {
  Options options;
  train::TrainConfig& config = options.config;
  config.model.init = train::Init::random;
  config.batch = {.micro_batch = 4, .micro_batches = 1};
  std::string teacher_dtype = "f32", recompute = "cheap", divergence = "forward_kl", student;
  po::options_description table("bench_step");
  auto add = table.add_options();
  const auto text = [](std::string* to) { return po::value(to); };
  const auto number = [](int* to) { return po::value(to)->default_value(*to); };
  add("help", "show this and stop");
  add("student", text(&student)->required(), "folder with the student's config.json");
  add("teacher", text(&config.teacher.path), "the same of a frozen teacher: distillation");
  add("teacher-dtype", text(&teacher_dtype)->default_value(teacher_dtype), "f32 or bf16");
  add("divergence", text(&divergence)->default_value(divergence), "from the teacher");
  add("batch", number(&config.batch.micro_batch), "sequences of a micro-batch");
  add("micro-batches", number(&config.batch.micro_batches), "of a step, over all ranks");
  add("length", po::value(&options.length)->default_value(options.length), "tokens of a sequence");
  add("tp", number(&config.grid.tp), "tensor ranks");
  add("pp", number(&config.grid.pp), "pipeline stages");
  add("dp", number(&config.grid.dp), "data-parallel ranks");
  add("chunk-rows", number(&config.loss.chunk_rows), "rows of logits held at a time; 0: automatic");
  add("recompute", text(&recompute)->default_value(recompute), "none, cheap or block");
  add("warmup", number(&options.warmup), "steps before the timed ones");
  add("steps", number(&options.steps), "timed steps of a report");
  add("serve", po::bool_switch(&options.serve), "report once for each line of standard input");
  po::variables_map values;
  po::store(po::parse_command_line(argc, argv, table), values);
  if (values.count("help") > 0) {
    std::cout << table;
    return std::nullopt;
  }
  po::notify(values);
  config.model.config = student + "/config.json";
  require(teacher_dtype == "f32" || teacher_dtype == "bf16", ErrorKind::usage, "--teacher-dtype ",
          teacher_dtype, ": f32 or bf16");
  require(recompute == "none" || recompute == "cheap" || recompute == "block", ErrorKind::usage,
          "--recompute ", recompute, ": none, cheap or block");
  const auto kind = options::Codec<train::Divergence>::parse(divergence);
  require(kind.has_value(), ErrorKind::usage, "--divergence ", divergence, ": ",
          options::Codec<train::Divergence>::type());
  config.loss.divergence = *kind;
  require(options.steps > 0, ErrorKind::usage, "--steps ", options.steps, ": at least 1");
  config.teacher.dtype = teacher_dtype == "bf16" ? DType::bf16 : DType::f32;
  config.memory.recompute = recompute == "none"    ? train::Recompute::none
                            : recompute == "block" ? train::Recompute::block
                                                   : train::Recompute::cheap;
  if (!config.teacher.path.empty()) config.loss.ce_weight = config.loss.kd_weight = 0.5;
  return options;
}

// Micro-batch j of the step: the same tokens on every grid.
data::MicroBatch random_micro_batch(const Options& options, std::int64_t vocab, std::int64_t j) {
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
  Bench(Device& device, comm::ProcessGrid& grid, const Options& options)
      : device_(device),
        options_(options),
        plan_(train::make_engine_plan(options.config)),
        engine_(device, grid, options.config, plan_, true) {
    model::load_parameters(engine_.student().parameters(), model::RandomWeights(1));
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
    report["arena_peak_bytes"] = sum_over_ranks(world, static_cast<double>(device_.memory().peak));
    report["gemm_library"] = kernels::gemm_library();
    return report;
  }

 private:
  std::int64_t tokens() const {
    const train::BatchConfig& batch = options_.config.batch;
    return std::int64_t{batch.micro_batches} * batch.micro_batch * options_.length;
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
    grid.world().barrier();
    const Timer timer;
    const model::LossSums sums = engine_.forward_backward(
        std::move(slots), data::RoleCounts({.label_tokens = tokens()}), count_++);
    const double norm = engine_.optimizer().gradient_norm(grid);
    const train::OptimConfig& optim = options_.config.optim;
    engine_.optimizer().step(optim.lr, train::clip_factor(norm, optim.clip));
    grid.world().barrier();
    loss_ = sums.cross_entropy / static_cast<double>(tokens());
    return timer.seconds();
  }

  Device& device_;
  Options options_;
  train::EnginePlan plan_;
  train::Engine engine_;
  std::int64_t count_ = 0;
  double loss_ = 0;
};

void run(const Options& options) {
  comm::MpiSession session;
  const train::GridConfig& shape = options.config.grid;
  comm::ProcessGrid grid(session.world(), {.dp = shape.dp, .pp = shape.pp, .tp = shape.tp});
  const auto device = make_cpu_device();
  Bench bench(*device, grid, options);
  print_reports(session.world(), options.serve, [&] { return bench.report(); });
}

}  // namespace
}  // namespace fathom::bench

int main(int argc, char** argv) {
  try {
    if (const auto options = fathom::bench::parse(argc, argv)) fathom::bench::run(*options);
    return 0;
  } catch (const fathom::Error& error) {
    std::cerr << "bench_step: " << error.what() << "\n";
    return fathom::exit_code(error.kind());
  } catch (const std::exception& error) {
    std::cerr << "bench_step: " << error.what() << "\n";
    return 2;
  }
}
