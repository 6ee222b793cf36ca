#include "core/memory_usage.h"

#include <fstream>
#include <sstream>
#include <string>

#include "core/error.h"

namespace fathom {
namespace {

/// Calls f(name, bytes) for each line of a file of /proc that counts memory.
template <typename F>
void each_count(const char* file, F f) {
  constexpr std::int64_t kibibyte = 1024;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kib = 0;
    words >> name >> kib;
    f(name, kib * kibibyte);
  }
}

}  // namespace

MemoryUsage memory_usage() {
  MemoryUsage usage;
  each_count("/proc/self/status", [&](const std::string& name, std::int64_t bytes) {
    if (name == "VmRSS:") usage.resident = bytes;
    if (name == "VmHWM:") usage.peak = bytes;
  });
  require(usage.resident > 0 && usage.peak > 0, ErrorKind::io,
          "/proc/self/status does not tell this process's memory (VmRSS, VmHWM)");
  return usage;
}

std::int64_t available_memory() {
  std::int64_t available = 0;
  each_count("/proc/meminfo", [&](const std::string& name, std::int64_t bytes) {
    if (name == "MemAvailable:") available = bytes;
  });
  require(available > 0, ErrorKind::io, "/proc/meminfo does not tell MemAvailable");
  return available;
}

}  // namespace fathom
