// What life on a cluster costs: saving, beside dd on the same disk in the same minute, and the
// watchdog's notes.
//
//   bench_cluster --model bench/configs/gpt2-small --folder /scratch --rounds 5
//
// Prints one JSON line. Seconds are of whole saves: from the snapshot to the renamed folder.
// `exposed` is the part in which training waits; `copies` what a save adds to the memory at its
// peak, in units of the state that is saved.

#include <boost/program_options.hpp>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/src/reporting.h"
#include "checkpoints/checkpoint_writer.h"
#include "comm/watched_communicator.h"
#include "core/memory_usage.h"
#include "core/timer.h"
#include "kernels/backend.h"
#include "train/run_state.h"

namespace fathom::bench {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;
using nlohmann::json;

struct Options {
  std::string model, folder;
  int rounds = 5;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  po::options_description table("bench_cluster");
  auto add = table.add_options();
  add("help", "show this and stop");
  add("model", po::value(&options.model)->required(), "folder with a config.json");
  add("folder", po::value(&options.folder)->required(), "on the disk to write to");
  add("rounds", po::value(&options.rounds)->default_value(options.rounds),
      "saves, and runs of dd: each takes its bytes of disk until the end");
  po::variables_map values;
  po::store(po::parse_command_line(argc, argv, table), values);
  if (values.count("help") > 0) {
    std::cout << table;
    return std::nullopt;
  }
  po::notify(values);
  return options;
}

struct Save {
  double exposed = 0, all = 0;
  json stages = json::object();      ///< seconds from the begin at which each was reached
  std::int64_t bytes = 0, peak = 0;  ///< of the memory, above what there was
};

Save save(train::Engine& engine, const fs::path& folder, std::int64_t step) {
  comm::Communicator& world = engine.grid().world();
  const std::int64_t before = memory_usage().resident;
  Save result;
  const Timer timer;
  checkpoints::CheckpointWriter writer(folder, {.last = 1}, [&](std::string_view stage) {
    result.stages[std::string(stage)] = timer.seconds();
  });
  writer.begin(world, {.step = step, .state = "{}", .config = "", .grid = "", .program = "bench"},
               train::snapshot(engine, true));
  result.exposed = timer.seconds();
  while (!writer.try_finish(world)) {
    result.peak = std::max(result.peak, memory_usage().resident - before);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  result.all = timer.seconds();
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) result.bytes += static_cast<std::int64_t>(entry.file_size());
  return result;
}

/// The bytes of a file, which are in the kernel's memory, written to another by dd.
double dd(const fs::path& from, const fs::path& to) {
  const std::string command =
      str("dd if=", from.string(), " of=", to.string(), " bs=1M conv=fsync 2>/dev/null");
  const Timer timer;
  require(std::system(command.c_str()) == 0, ErrorKind::io, command);
  return timer.seconds();
}

/// Uses so much memory and gives it back. A virtual machine's host backs a page when it is first
/// touched, and may take it away again while it lies unused: without this the first to write would
/// pay for that, and the next would not.
void touch_memory(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, ErrorKind::io, "no ", bytes, " bytes of memory");
  for (std::size_t at = 0; at < bytes; at += kPage) static_cast<volatile char*>(memory)[at] = 1;
  ::munmap(memory, bytes);
}

json saves(const Options& options) {
  train::TrainConfig config;
  config.model.init = train::Init::random;
  config.model.config = options.model + "/config.json";
  const auto device = kernels::make_device();
  const auto world = comm::self_communicator();
  comm::ProcessGrid grid(*world, {}, *device);
  train::Engine engine(*device, grid, config, train::make_engine_plan(config), true);
  engine.load_initial_weights();
  // Nothing is removed before the end: a disk that is told of every freed block is busy for a while
  // after a large file has gone. For the same reason neither writer always goes first.
  const fs::path folder = fs::path(options.folder) / "bench_cluster";
  fs::remove_all(folder);
  const auto make = [&](const std::string& name) {
    fs::create_directories(folder / name);
    return folder / name;
  };
  const fs::path first = make("first");
  // The copy, the file in the kernel's memory, and as much again; this save is not counted.
  const auto needed = 3 * static_cast<std::size_t>(save(engine, first, 1).bytes);
  const fs::path source = first / checkpoints::step_name(1) / checkpoints::shard_name(0);
  json stages;
  std::vector<double> exposed, all, rates, peer, ratios, copies;
  const auto peer_round = [&](const std::string& name) {
    ::sync();
    touch_memory(needed);
    peer.push_back(dd(source, make(name) / "dd"));
  };
  for (int round = 0; round < options.rounds; ++round) {
    const std::string name = str("round", round);
    if (round % 2 == 1) peer_round(name + "_dd");
    ::sync();
    touch_memory(needed);
    const Save saved = save(engine, make(name), 1);
    if (round % 2 == 0) peer_round(name + "_dd");
    stages = saved.stages;
    const auto bytes = static_cast<double>(saved.bytes);
    exposed.push_back(saved.exposed);
    all.push_back(saved.all);
    rates.push_back(bytes / saved.all / 1e6);
    ratios.push_back(peer.back() / (saved.all - saved.exposed));
    copies.push_back(static_cast<double>(saved.peak) / bytes);
  }
  fs::remove_all(folder);
  return {{"exposed", summary(exposed)},
          {"save", summary(all)},
          {"MB_per_s", summary(rates)},
          {"dd", summary(peer)},
          {"ratio", summary(ratios)},
          {"copies", summary(copies)},
          {"stages", stages}};
}

/// Nanoseconds of a note, and of the two of a call to other ranks.
json notes() {
  comm::Watchdog watchdog({}, comm::Watchdog::Seconds(600), [] { std::abort(); });
  comm::Watchdog::Group& group = watchdog.add_group({0, 1});
  constexpr int kTimes = 10'000'000;
  const Timer noting;
  for (int i = 0; i < kTimes; ++i) watchdog.note({.step = i, .micro_batch = 1, .name = "forward"});
  const double note = noting.seconds();
  const Timer calling;
  for (int i = 0; i < kTimes; ++i)
    const comm::Watchdog::Call call(&watchdog, "receive", group, 1, i);
  return {{"note_ns", note / kTimes * 1e9}, {"call_ns", calling.seconds() / kTimes * 1e9}};
}

int run(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) return 0;
  json report = saves(*options);
  report["watchdog"] = notes();
  std::cout << report.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace fathom::bench

int main(int argc, char** argv) {
  try {
    return fathom::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "bench_cluster: " << error.what() << "\n";
    return 1;
  }
}
