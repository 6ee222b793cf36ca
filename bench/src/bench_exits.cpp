// Times decoding that leaves late layers early beside decoding through all of them, in turns, with
// a router that sends every token to the same late layer.
//
//   bench_exits --model FOLDER --k 10 --layer 1     all tokens leave at the first of ten
//   bench_exits --model FOLDER --k 3 --layer 3      none leaves
//
// Prints one JSON line: medians of the ratios of neighbouring runs, with the interval that holds
// the median with at least 95 %, and what the weights that are read allow at most.

#include <boost/program_options.hpp>
#include <cmath>

#include "bench/src/program.h"
#include "bench/src/reporting.h"
#include "comm/device_choice.h"
#include "comm/mpi/mpi_session.h"
#include "core/timer.h"
#include "generate/generator.h"
#include "kernels/backend.h"
#include "train/engine.h"
#include "train/hf_weights.h"

namespace fathom::bench {
namespace {

namespace po = boost::program_options;

struct Options {
  std::string model;
  int k = 3, layer = 1;
  generate::ExitOptions exit{.policy = generate::ExitPolicy::topk, .topk = 1};
  std::int64_t batch = 1, added = 49;
  int pairs = 20;
};

// Empty when only help was asked for.
std::optional<Options> parse(int argc, char** argv) {
  Options options;
  std::string cache = "deferred";
  po::options_description table("bench_exits");
  auto add = table.add_options();
  add("help", "show this and stop");
  add("model", po::value(&options.model)->required(), "Hugging Face folder");
  add("k", po::value(&options.k)->default_value(options.k), "late layers");
  add("layer", po::value(&options.layer)->default_value(options.layer),
      "of them, where all tokens leave");
  add("cache", po::value(&cache)->default_value(cache), "deferred, copy or off");
  add("flush", po::value(&options.exit.flush)->default_value(options.exit.flush),
      "tokens that wait at most");
  add("batch", po::value(&options.batch)->default_value(options.batch), "sequences");
  add("new", po::value(&options.added)->default_value(options.added), "tokens to add to each");
  add("pairs", po::value(&options.pairs)->default_value(options.pairs), "pairs of runs");
  po::variables_map values;
  po::store(po::parse_command_line(argc, argv, table), values);
  if (values.count("help") > 0) {
    std::cout << table;
    return std::nullopt;
  }
  po::notify(values);
  using generate::ExitCache;
  require(cache == "deferred" || cache == "copy" || cache == "off", ErrorKind::usage, "--cache ",
          cache, ": deferred, copy or off");
  options.exit.cache = cache == "deferred" ? ExitCache::deferred
                       : cache == "copy"   ? ExitCache::copy
                                           : ExitCache::off;
  require(options.layer >= 1 && options.layer <= options.k, ErrorKind::usage, "--layer ",
          options.layer, ": 1 to ", options.k);
  require(options.pairs >= 6, ErrorKind::usage, "--pairs ", options.pairs, ": at least 6");
  return options;
}

// Median, and the order statistics around it between which the true one lies with at least 95 %
// (sign test).
nlohmann::json median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  double tail = 0, term = std::pow(0.5, static_cast<double>(n));
  std::size_t low = 0;
  for (std::size_t i = 0; i < n / 2; ++i) {
    tail += term;
    if (tail > 0.025) break;
    low = i;
    term *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return {{"median", (values[(n - 1) / 2] + values[n / 2]) / 2},
          {"low", values[low]},
          {"high", values[n - 1 - low]}};
}

void run(const Options& options) {
  comm::MpiSession session;
  const auto device = kernels::make_device(
      {.index = comm::choose_device(session.world(), session.node(), session.host())});
  comm::ProcessGrid grid(session.world(), {}, *device);
  train::TrainConfig config;
  train::EnginePlan plan = train::plan_for(train::read_model_spec(options.model), config);
  plan.set_mode({.k = options.k}, "");
  train::Engine engine(*device, grid, config, plan, false);
  engine.load_student(train::HfWeights(options.model));
  std::vector<float> bias(static_cast<std::size_t>(options.k), 0.0f);
  bias[static_cast<std::size_t>(options.layer - 1)] = 50;
  copy_from_host(engine.vote()->router().bias.value, bias);

  std::vector<generate::Prompt> prompts;
  for (std::int64_t i = 0; i < options.batch; ++i)
    prompts.push_back({{1, static_cast<std::int32_t>(100 + i)}, static_cast<std::uint64_t>(i)});
  generate::GeneratorOptions all_layers{.max_new = options.added, .batch = options.batch};
  generate::GeneratorOptions dense = all_layers, exits = all_layers;
  dense.vote = exits.vote = engine.vote();
  exits.exit = options.exit;
  generate::Generator last_alone(engine.student(), grid, all_layers),
      voting(engine.student(), grid, dense), leaving(engine.student(), grid, exits);
  const auto timed = [&](generate::Generator& generator) {
    const Timer timer;
    generator.generate(prompts);
    return timer.seconds();
  };
  for (generate::Generator* each : {&last_alone, &voting, &leaving}) timed(*each);
  std::vector<double> to_last_alone, to_voting;
  for (int pair = 0; pair < options.pairs; ++pair) {
    const double alone = timed(last_alone), exit = timed(leaving), all = timed(voting);
    to_last_alone.push_back(alone / exit);
    to_voting.push_back(all / exit);
  }
  const generate::ExitCounts& counts = leaving.exit_counts();
  std::cout << nlohmann::json{{"k", options.k},
                              {"layer", options.layer},
                              {"batch", options.batch},
                              {"flush", options.exit.flush},
                              {"pairs", options.pairs},
                              {"layers_a_token", counts.average_depth(plan.student)},
                              {"bound", counts.bound(plan.student)},
                              {"speed_to_all_layers", median_of(to_voting)},
                              {"speed_to_last_layer_alone", median_of(to_last_alone)}}
                   .dump()
            << std::endl;
}

}  // namespace
}  // namespace fathom::bench

int main(int argc, char** argv) {
  return fathom::bench::run_program("bench_exits", argc, argv, fathom::bench::parse,
                                    fathom::bench::run);
}
