#include "core/error.h"
#include "gpu/attention_items.h"
#include "gpu/devices.h"

namespace fathom::kernels {

void require_attention(Device& device, std::int64_t head_dim, bool backward) {
  using namespace gpu::attention;
  const int index = gpu::gpu_device(device).index();
  require(head_dim <= kMostHeadDim, ErrorKind::config, "the model's attention heads have ",
          head_dim, " values, and kernels for GPUs take ", kMostHeadDim,
          " at most: it runs with run.device=cpu");
  const std::size_t needed =
      sizeof(float) * static_cast<std::size_t>(backward ? backward_shared_floats(head_dim)
                                                        : forward_shared_floats(head_dim));
  const std::size_t most = gpu::most_shared_bytes(index);
  require(needed <= most, ErrorKind::config, "GPU ", index, " (", gpu::bus_id(index), ") gives a ",
          "block ", most, " bytes of shared memory, and ", backward ? "training" : "running",
          " a model with attention heads of ", head_dim, " values needs ", needed,
          ": use a GPU with more (A100, H100, H200, B200), or run.device=cpu");
}

}  // namespace fathom::kernels
