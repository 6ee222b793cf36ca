#include "gpu/sim/recording.h"

#include <fstream>
#include <mutex>

#include "core/error.h"
#include "gpu/sim/settings.h"

namespace fathom::gpu::sim {

bool recording() {
  return !settings().record.empty();
}

void record(const std::string& line) {
  static std::mutex mutex;
  static std::ofstream file(settings().record);
  const std::lock_guard lock(mutex);
  file << line << '\n';
  require(file.good(), ErrorKind::io, "FATHOM_SIM_RECORD: cannot write to ", settings().record);
}

}  // namespace fathom::gpu::sim
