#pragma once

#include <cstdint>
#include <vector>

#include "gpu/gpu_device.h"
#include "gpu/launch.h"
#include "kernels/attention.h"

// What the blocks of an attention kernel work on, and how they are launched.

namespace fathom::gpu::attention {

/// Longest head that the tiles of the kernels are made for.
inline constexpr std::int64_t kMostHeadDim = 256;

/// Shared memory of a block, in floats, for heads of at most kMostHeadDim: of the forward pass, and
/// of its gradients, which need more.
std::int64_t forward_shared_floats(std::int64_t head_dim);
std::int64_t backward_shared_floats(std::int64_t head_dim);

/// A tile of positions [begin, begin + tile) of one sequence. Kernels read it as four words.
struct Item {
  std::int32_t first_row;  ///< of the sequence, in the operands
  std::int32_t begin;
  std::int32_t length;   ///< of the sequence
  std::uint32_t sample;  ///< of the sequence, for dropout
};

enum class ItemsOf { queries, keys };

struct Items {
  const Item* data() const { return reinterpret_cast<const Item*>(words.ptr<std::int32_t>()); }

  Tensor words;  ///< on the device
  std::int64_t count = 0;
};

/// The tiles of all sequences, those with most to do first: queries see the keys before them, and
/// keys are seen by the queries after them, within the window.
Items tile_items(Device& device, const std::vector<std::int32_t>& starts,
                 const std::vector<std::uint32_t>& samples, std::int64_t tile, std::int64_t window,
                 ItemsOf kind);

/// Launches one block for each pair of an item and a head: block b has item b / heads and head
/// b % heads, so that the longest items of all heads come first.
template <typename... Parameters, typename... Arguments>
void launch_items(Device& device, void (*kernel)(Parameters...), std::int64_t items,
                  std::int64_t heads, int threads, std::int64_t shared_floats,
                  Arguments... arguments) {
  if (items == 0) return;
  KernelScope scope(device);
  launch(kernel, static_cast<unsigned>(items * heads), static_cast<unsigned>(threads),
         static_cast<std::size_t>(shared_floats) * sizeof(float), stream_of(device), arguments...);
}

}  // namespace fathom::gpu::attention
