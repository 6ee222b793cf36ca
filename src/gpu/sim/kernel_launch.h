#pragma once

#include <cstddef>
#include <cuda_runtime.h>
#include <functional>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace fathom::gpu::sim {

/// A launch as the caller made it.
struct LaunchRequest {
  dim3 blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  const void* kernel = nullptr;
  std::string_view signature;  ///< text that holds the kernel's types, for messages
};

/// Throws Error(internal) when the hardware would refuse the launch.
void check_shape(const LaunchRequest& request);

/// Throws Error(internal) unless a pointer among the arguments is null, or points into live memory
/// of the stream's device or into page-locked memory.
void check_pointer(const LaunchRequest& request, int argument, const void* pointer);

/// The same for the pointers that a structure or a closure holds: each of its aligned words that is
/// the address of something mapped counts as one. Its padding must have been cleared.
void check_words(const LaunchRequest& request, int argument, const void* object, std::size_t bytes);

/// Enqueues a launch; call(arguments) runs the kernel's body for one thread. Throws Error(internal)
/// when the device has a fault, which in eager streams may come from this very kernel.
void submit(const LaunchRequest& request, void (*call)(const void*),
            std::function<const void*()> arguments);

template <typename T>
void check_argument(const LaunchRequest& request, int argument, T value) {
  if constexpr (std::is_pointer_v<T>) {
    check_pointer(request, argument, value);
  } else if constexpr (std::is_class_v<T>) {
    __builtin_clear_padding(&value);  // may hold what lay on the stack before
    check_words(request, argument, &value, sizeof value);
  }
}

/// Enqueues a kernel on a stream, as gpu::launch() says. The arguments are checked at once: no
/// pointer to host memory that is passed by value, alone or inside a closure, reaches a kernel.
/// What a kernel reads from memory and then follows is not checked.
template <typename... Parameters>
void launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, std::size_t shared_bytes,
            cudaStream_t stream, std::type_identity_t<Parameters>... arguments) {
  const LaunchRequest request = {.blocks = blocks,
                                 .threads = threads,
                                 .shared_bytes = shared_bytes,
                                 .stream = stream,
                                 .kernel = reinterpret_cast<const void*>(kernel),
                                 .signature = __PRETTY_FUNCTION__};
  check_shape(request);
  int argument = 0;
  (check_argument(request, argument++, arguments), ...);
  using Call = std::tuple<void (*)(Parameters...), std::tuple<Parameters...>>;
  submit(
      request,
      [](const void* stored) {
        const auto& [body, values] = *static_cast<const Call*>(stored);
        std::apply(body, values);
      },
      [call = Call(kernel, std::tuple<Parameters...>(arguments...))]() -> const void* {
        return &call;
      });
}

}  // namespace fathom::gpu::sim
