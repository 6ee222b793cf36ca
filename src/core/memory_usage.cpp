#include "core/memory_usage.h"

#include <fstream>
#include <sstream>
#include <string>

#include "core/error.h"

namespace fathom {

MemoryUsage memory_usage() {
  constexpr std::int64_t kibibyte = 1024;
  std::ifstream in("/proc/self/status");
  MemoryUsage usage;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kib = 0;
    words >> name >> kib;
    if (name == "VmRSS:") usage.resident = kib * kibibyte;
    if (name == "VmHWM:") usage.peak = kib * kibibyte;
  }
  require(usage.resident > 0 && usage.peak > 0, ErrorKind::io,
          "/proc/self/status does not tell this process's memory (VmRSS, VmHWM)");
  return usage;
}

}  // namespace fathom
