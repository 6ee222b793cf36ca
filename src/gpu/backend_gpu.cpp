#include "gpu/devices.h"
#include "gpu/gpu_device.h"

namespace fathom::kernels {

const Backend& backend() {
#if defined(FATHOM_SIM)
  static const Backend gpu{
      .name = "sim", .details = "kernels on fibers; " + gpu::versions(), .owns_memory = true};
#else
  static const Backend gpu{.name = "cuda", .details = gpu::versions(), .owns_memory = true};
#endif
  return gpu;
}

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  return std::make_unique<gpu::GpuDevice>(options);
}

Precision precision_of(Device& device) {
  return gpu::gpu_device(device).precision();
}

int device_count() {
  return gpu::count_devices().count;
}

std::string why_unusable(int index) {
  return gpu::why_unusable(index);
}

std::string device_identity(int index) {
  return gpu::bus_id(index);
}

}  // namespace fathom::kernels
