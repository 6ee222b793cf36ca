// Times decoding, prompts included: greedily, or sampled from all tokens; several prompts together.
//
//   bench_decode --model FOLDER --ids 1,2,3 --new 96
//   bench_decode --model FOLDER --ids "1,2,3;4,5" --new 64 --temperature 1
//
// Prints one JSON line, with the ids that were chosen if nothing was left to chance, so that peers
// can be held against them.

#include <boost/program_options.hpp>

#include "bench/src/program.h"
#include "bench/src/reporting.h"
#include "comm/device_choice.h"
#include "comm/mpi/mpi_session.h"
#include "core/memory_usage.h"
#include "core/timer.h"
#include "generate/generator.h"
#include "kernels/backend.h"
#include "kernels/peak.h"
#include "train/engine.h"
#include "train/hf_weights.h"

namespace fathom::bench {
namespace {

namespace po = boost::program_options;

struct Options {
  std::string model;
  DType dtype = DType::f32;
  std::vector<generate::Prompt> prompts;
  std::int64_t added = 96;
  double temperature = 0;
  int warmup = 1, steps = 4;
  bool serve = false;
};

std::vector<generate::Prompt> parse_prompts(const std::string& text) {
  std::vector<generate::Prompt> prompts;
  std::istringstream lists(text);
  for (std::string list; std::getline(lists, list, ';');) {
    generate::Prompt prompt{{}, prompts.size()};
    std::istringstream ids(list);
    for (std::string id; std::getline(ids, id, ',');) prompt.ids.push_back(std::stoi(id));
    prompts.push_back(std::move(prompt));
  }
  require(!prompts.empty(), ErrorKind::usage, "--ids is empty");
  return prompts;
}

// Empty when only help was asked for.
std::optional<Options> parse(int argc, char** argv) {
  Options options;
  std::string ids, dtype = "f32";
  po::options_description table("bench_decode");
  auto add = table.add_options();
  add("help", "show this and stop");
  add("model", po::value(&options.model)->required(), "Hugging Face folder");
  add("dtype", po::value(&dtype)->default_value(dtype), "of the matrices: f32 or bf16");
  add("ids", po::value(&ids)->required(), "ids of the prompts: \"1,2,3;4,5\" are two");
  add("new", po::value(&options.added)->default_value(options.added), "tokens to add to each");
  add("temperature", po::value(&options.temperature)->default_value(options.temperature),
      "of the sampling; 0 is greedy");
  add("warmup", po::value(&options.warmup)->default_value(options.warmup), "runs before the timed");
  add("steps", po::value(&options.steps)->default_value(options.steps), "timed runs of a report");
  add("serve", po::bool_switch(&options.serve), "report once for each line of standard input");
  po::variables_map values;
  po::store(po::parse_command_line(argc, argv, table), values);
  if (values.count("help") > 0) {
    std::cout << table;
    return std::nullopt;
  }
  po::notify(values);
  require(dtype == "f32" || dtype == "bf16", ErrorKind::usage, "--dtype ", dtype, ": f32 or bf16");
  require(options.steps > 0, ErrorKind::usage, "--steps ", options.steps, ": at least 1");
  options.dtype = dtype == "bf16" ? DType::bf16 : DType::f32;
  options.prompts = parse_prompts(ids);
  return options;
}

// What one step reads, whatever its sequences: every parameter once, a tied embedding as the head.
double bytes_per_step(const model::Stage& stage) {
  double bytes = 0;
  for (const model::Parameter& parameter : stage.parameters().parameters())
    bytes += static_cast<double>(parameter.value.bytes());
  if (!stage.spec().tied) bytes -= static_cast<double>(stage.embedding().value.bytes());
  return bytes;
}

void run(const Options& options) {
  comm::MpiSession session;
  const auto device = kernels::make_device(
      {.index = comm::choose_device(session.world(), session.node(), session.host())});
  comm::ProcessGrid grid(session.world(), {}, *device);
  train::TrainConfig config;
  config.model.frozen_dtype = options.dtype;
  const train::EnginePlan plan = train::plan_for(train::read_model_spec(options.model), config);
  train::Engine engine(*device, grid, config, plan, false);
  model::load_parameters(engine.student().parameters(), train::HfWeights(options.model));
  const auto sequences = static_cast<double>(options.prompts.size());
  generate::Generator generator(engine.student(), grid,
                                {.sampling = {.temperature = options.temperature},
                                 .max_new = options.added,
                                 .batch = static_cast<std::int64_t>(options.prompts.size())});
  std::vector<generate::Continuation> chosen;
  const auto timed = [&] {
    const Timer timer;
    chosen = generator.generate(options.prompts);
    return timer.seconds();
  };
  for (int i = 0; i < options.warmup; ++i) timed();
  print_reports(session.world(), options.serve, [&] {
    std::vector<double> seconds;
    for (int i = 0; i < options.steps; ++i) seconds.push_back(timed());
    nlohmann::json report = summary(seconds);
    const double rate = static_cast<double>(options.added) / report["min"].get<double>();
    report["tokens_per_s"] = rate * sequences;
    report["gb_per_s"] = rate * bytes_per_step(engine.student()) / 1e9;
    report["peak_gb_per_s"] = kernels::measure_read_bandwidth(*device);
    report["peak_rss_bytes"] = memory_usage().peak;
    if (options.temperature == 0) report["ids"] = chosen.front().ids;
    return report;
  });
}

}  // namespace
}  // namespace fathom::bench

int main(int argc, char** argv) {
  return fathom::bench::run_program("bench_decode", argc, argv, fathom::bench::parse,
                                    fathom::bench::run);
}
