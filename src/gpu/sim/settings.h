#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fathom::gpu::sim {

/// The order in which those that could run next are taken. A correct kernel gives the same bits in
/// every order of its threads, and in every order of its blocks.
enum class Order { forward, reverse, random };

/// How the stand-in behaves; see settings().
struct Settings {
  Order threads = Order::forward;  ///< FATHOM_SIM_THREADS=forward|reverse|random[:SEED]
  Order blocks = Order::forward;   ///< FATHOM_SIM_BLOCKS, the same
  std::uint64_t thread_seed = 1;
  std::uint64_t block_seed = 1;
  bool lazy_streams = false;  ///< FATHOM_SIM_STREAMS=eager|lazy, see streams.h
  std::string record;    ///< FATHOM_SIM_RECORD: a file that gets a line for each kernel and product
  bool protect = false;  ///< FATHOM_SIM_PROTECT=0|1: the host dies where it touches device memory
  int devices = 8;       ///< FATHOM_SIM_DEVICES
  std::size_t device_bytes = std::size_t{4096}
                             << 20;  ///< of each device; FATHOM_SIM_MEMORY, in MiB
  int capability = 90;               ///< FATHOM_SIM_CAPABILITY: 86 is what CUDA calls 8.6
  std::uint64_t nccl_fails = 0;  ///< FATHOM_SIM_NCCL_FAILS: which operation of each communicator of
                                 ///< NCCL fails, counted from 1; 0: none

  /// Shared memory that a block may have on a device of that capability.
  std::size_t shared_bytes() const;
};

/// What the environment says. Throws Error(config) for a value that is not known.
Settings settings_of_environment();

/// Those in force; from the environment at the first call. Tests may change orders, seeds and
/// streams while no work is queued; the rest is fixed by the first use of a device.
Settings& settings();

}  // namespace fathom::gpu::sim
