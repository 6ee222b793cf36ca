#include <cstdio>
#include <exception>

#include "core/error.h"
#include "gpu/devices.h"
#include "kernels/backend.h"

// For programs that know nothing of this library's exceptions.

namespace {

struct Found {
  int usable = 0;
  std::string why_not;
};

Found look() {
  const fathom::gpu::DeviceCount all = fathom::gpu::count_devices();
  Found found{0, all.why_none};
  for (int i = 0; i < all.count; ++i) {
    const std::string why = fathom::gpu::why_unusable(i);
    found.usable += why.empty();
    if (!why.empty())
      found.why_not += fathom::str(found.why_not.empty() ? "" : "; ", "GPU ", i, " (",
                                   fathom::gpu::bus_id(i), ") ", why);
  }
  return found;
}

void put(const std::string& text, char* to, std::size_t size) {
  std::snprintf(to, size, "%s", text.c_str());
}

}  // namespace

int fathom_probe_devices(char* why_not, std::size_t size) {
  try {
    const Found found = look();
    put(found.why_not, why_not, size);
    return found.usable;
  } catch (const std::exception& error) {
    put(error.what(), why_not, size);
    return 0;
  }
}

void fathom_backend_versions(char* text, std::size_t size) {
  try {
    put(fathom::gpu::versions(), text, size);
  } catch (const std::exception& error) {
    put(error.what(), text, size);
  }
}
