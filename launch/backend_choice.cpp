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

/// Devices that a backend's library finds, or why it finds none.
struct Found {
  int devices = 0;
  std::string why_none;
};

Found probe(const std::string& backend) {
  const fs::path path = library_of(backend);
  if (!fs::exists(path)) return {0, str("built without it: there is no ", path.string())};
  // The driver first: without one, CUDA's large libraries need not be loaded to know the answer.
  if (backend == "cuda") {
    const Library driver("libcuda.so.1");
    if (driver.handle == nullptr) return {0, str("no NVIDIA driver: ", driver.error)};
  }
  const Library library(path.string());
  if (library.handle == nullptr) return {0, library.error};
  const auto ask = reinterpret_cast<decltype(&fathom_probe_devices)>(
      dlsym(library.handle, "fathom_probe_devices"));
  if (ask == nullptr) return {0, str(path.string(), " is not of this version of fathom")};
  char why[512] = "";
  const int devices = ask(why, sizeof why);
  return {devices, why};
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

Choice choose(DeviceKind wanted) {
  const std::string running = kernels::backend().name;
  if (wanted == DeviceKind::automatic) {
    if (running != "cpu") return {running, ""};
    const Found found = probe("cuda");
    return found.devices > 0 ? Choice{"cuda", ""} : Choice{"cpu", found.why_none};
  }
  const std::string name = name_of(wanted);
  if (name == "cpu" || name == running) return {name, ""};
  const Found found = probe(name);
  require(found.devices > 0, ErrorKind::config, "device = ", name,
          " cannot be used on this machine (", found.why_none,
          "); device = auto would take the CPU");
  return {name, ""};
}

}  // namespace

void choose_backend(DeviceKind wanted, kernels::Precision precision) {
  const Choice choice = choose(wanted);
  require(choice.backend != "cpu" || precision == kernels::Precision::f32, ErrorKind::config,
          "run.precision = tf32 and bf16 need a GPU, and this run would be on the CPU",
          choice.why_no_gpu.empty() ? "" : str(" (", choice.why_no_gpu, ")"),
          "; run.precision = f32 runs there");
  if (choice.backend != kernels::backend().name) restart_on(choice.backend);
  if (!choice.why_no_gpu.empty() && comm::launched_rank() == 0)
    log_info("no GPU is used: ", choice.why_no_gpu);
}

std::string backends_text() {
  const kernels::Backend& running = kernels::backend();
  std::string text = str("runs on ", running.name, ": ", running.details, "\n");
  for (const std::string name : {"cpu", "cuda", "sim"}) {
    if (name == running.name) continue;
    if (name == "cpu") {
      text += fs::exists(library_of(name)) ? "cpu: here as well\n" : "cpu: not built\n";
      continue;
    }
    const Found found = probe(name);
    text += found.devices > 0
                ? str(name, ": ", found.devices, found.devices == 1 ? " device\n" : " devices\n")
                : str(name, ": cannot be used (", found.why_none, ")\n");
  }
  return text;
}

}  // namespace fathom::launch
