#include "launch/backend_choice.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <unistd.h>
#include <vector>

#include "comm/launch_environment.h"
#include "core/error.h"
#include "core/log.h"
#include "launch/session.h"

namespace fathom::launch {
namespace {

namespace fs = std::filesystem;
using kernels::DeviceKind;

/// Set to the backend's name for the program that is started anew.
constexpr const char* kRestarted = "FATHOM_BACKEND";
constexpr const char* kLibraryPath = "LD_LIBRARY_PATH";

fs::path program() {
  return fs::read_symlink("/proc/self/exe");
}

/// Where a backend's library lies, in a build folder as where Fathom is installed.
fs::path folder_of(const std::string& backend) {
  const fs::path lib = (program().parent_path() / "../lib").lexically_normal();
  return backend == "cpu" ? lib : lib / backend;
}

fs::path library_of(const std::string& backend) {
  return folder_of(backend) / "libfathom_kernels.so";
}

struct Library {
  // Never closed: it may have started threads.
  explicit Library(const std::string& name) : handle(dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    if (handle == nullptr) error = dlerror();
  }

  void* handle;
  std::string error;
};

/// What a backend's library says of this machine.
struct Found {
  int devices = 0;       ///< that it can use
  std::string why_not;   ///< there are none, or others cannot be used
  std::string versions;  ///< of what it runs on; empty where the library has not been asked
};

Found probe(const std::string& backend) {
  const fs::path path = library_of(backend);
  if (!fs::exists(path)) return {0, str("built without it: there is no ", path.string()), ""};
  // The driver first: without one, CUDA's large libraries need not be loaded to know the answer.
  if (backend == "cuda") {
    const Library driver("libcuda.so.1");
    if (driver.handle == nullptr) return {0, str("no NVIDIA driver: ", driver.error), ""};
  }
  const Library library(path.string());
  if (library.handle == nullptr) return {0, library.error, ""};
  const auto devices = reinterpret_cast<decltype(&fathom_probe_devices)>(
      dlsym(library.handle, "fathom_probe_devices"));
  const auto versions = reinterpret_cast<decltype(&fathom_backend_versions)>(
      dlsym(library.handle, "fathom_backend_versions"));
  if (devices == nullptr || versions == nullptr)
    return {0, str(path.string(), " is not of this version of fathom"), ""};
  char why_not[1024] = "", text[256] = "";
  const int count = devices(why_not, sizeof why_not);
  versions(text, sizeof text);
  return {count, why_not, text};
}

std::string counted(int count, const char* what) {
  return str(count, " ", what, count == 1 ? "" : "s");
}

// Whether each rank of this node finds a device. One that the launcher has given a device of its
// own sees no other; whether two see the same is known once they can talk (comm::choose_device).
bool enough_for(int ranks, const Found& found) {
  const bool given = std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
  return found.devices >= ranks || (found.devices == 1 && given);
}

std::string name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cuda:
      return "cuda";
    case DeviceKind::sim:
      return "sim";
    case DeviceKind::cpu:
    case DeviceKind::automatic:
      break;
  }
  return "cpu";
}

/// The words that this process was started with.
std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

[[noreturn]] void restart_on(const std::string& backend) {
  const char* path = std::getenv(kLibraryPath);
  const char* restarted = std::getenv(kRestarted);
  if (restarted != nullptr && restarted == backend)
    fail(ErrorKind::config, "the program runs on the library of ", kernels::backend().name,
         " although it was started on that of ", backend, ": ", kLibraryPath, " is '",
         path ? path : "", "'");
  const std::string folder = folder_of(backend).string();
  setenv(kLibraryPath, (folder + (path && *path ? str(":", path) : "")).c_str(), 1);
  setenv(kRestarted, backend.c_str(), 1);
  std::vector<std::string> words = command_line();
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::cout.flush();
  execv(program().c_str(), arguments.data());
  fail(ErrorKind::io, program().string(), " could not be started anew on ", backend, ": ",
       std::strerror(errno));
}

struct Choice {
  std::string backend;
  std::string why_no_gpu;  ///< of an automatic choice of the CPU
};

Choice choose_automatically(const std::string& running, const comm::LaunchEnvironment& launch) {
  const char* restarted = std::getenv(kRestarted);
  if (running != "cpu" && restarted != nullptr && running == restarted) return {running, ""};
  const std::string gpu = running == "cpu" ? "cuda" : running;
  const Found found = probe(gpu);
  if (found.devices == 0) return {"cpu", found.why_not};
  const int ranks = launch.node_ranks.value_or(1);
  if (enough_for(ranks, found)) return {gpu, ""};
  return {"cpu", str(counted(found.devices, "GPU"), " for the ", counted(ranks, "rank"),
                     " of this node", found.why_not.empty() ? "" : "; ", found.why_not)};
}

Choice choose(DeviceKind wanted, const comm::LaunchEnvironment& launch) {
  const std::string running = kernels::backend().name;
  if (wanted == DeviceKind::automatic) return choose_automatically(running, launch);
  const std::string name = name_of(wanted);
  if (name == "cpu" || name == running) return {name, ""};
  const Found found = probe(name);
  require(found.devices > 0, ErrorKind::config, "device = ", name,
          " cannot be used on this machine (", found.why_not,
          "); device = auto would take the CPU");
  return {name, ""};
}

std::string& why_no_gpu_here() {
  static std::string why;
  return why;
}

}  // namespace

void choose_backend(DeviceKind wanted, kernels::Precision precision) {
  const comm::LaunchEnvironment launch = comm::read_launch_environment();
  set_cuda_environment(launch.mpirun_ranks.value_or(launch.srun_ranks.value_or(1)));
  const Choice choice = choose(wanted, launch);
  require(choice.backend != "cpu" || precision == kernels::Precision::f32, ErrorKind::config,
          "run.precision = tf32 and bf16 need a GPU, and this run would be on the CPU",
          choice.why_no_gpu.empty() ? "" : str(" (", choice.why_no_gpu, ")"),
          "; run.precision = f32 runs there");
  if (!choice.why_no_gpu.empty() && comm::launched_rank() == 0)
    log_info("no GPU is used: ", choice.why_no_gpu);
  why_no_gpu_here() = choice.why_no_gpu;
  if (choice.backend != kernels::backend().name) restart_on(choice.backend);
}

const std::string& why_no_gpu() {
  return why_no_gpu_here();
}

void set_cuda_environment(int ranks) {
  constexpr int kKeep = 0;
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", kKeep);
  if (ranks > 1) setenv("CUDA_MODULE_LOADING", "EAGER", kKeep);
}

std::string backends_text() {
  set_cuda_environment(1);
  const kernels::Backend& running = kernels::backend();
  std::string text = str("runs on ", running.name, ": ", running.details, "\n");
  for (const std::string name : {"cpu", "cuda", "sim"}) {
    if (name == running.name) continue;
    if (name == "cpu") {
      text += fs::exists(library_of(name)) ? "cpu: here as well\n" : "cpu: not built\n";
      continue;
    }
    const Found found = probe(name);
    text += str(name, ": ", found.devices > 0 ? counted(found.devices, "device") : "cannot be used",
                found.why_not.empty() ? "" : str(" (", found.why_not, ")"),
                found.versions.empty() ? "" : "; ", found.versions, "\n");
  }
  return text;
}

}  // namespace fathom::launch
