#include "core/error.h"
#include "kernels/backend.h"
#include "kernels/gemm.h"

namespace fathom::kernels {

const Backend& backend() {
  static const Backend cpu{.name = "cpu", .details = gemm_library(), .owns_memory = false};
  return cpu;
}

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  require(options.precision == Precision::f32, ErrorKind::config,
          "on the CPU, products of f32 matrices are f32: tf32 and bf16 need a GPU");
  return make_cpu_device(options.limit_bytes);
}

Precision precision_of(Device& /*device*/) {
  return Precision::f32;
}

int device_count() {
  return 0;
}

std::string why_unusable(int /*index*/) {
  return "";
}

std::string device_identity(int /*index*/) {
  return "cpu";
}

std::string new_collectives_id() {
  fail(ErrorKind::internal, "the host has no collectives of a device");
}

std::unique_ptr<DeviceCollectives> make_collectives(Device&, const std::string&, int, int, bool) {
  fail(ErrorKind::internal, "the host has no collectives of a device");
}

}  // namespace fathom::kernels
