#pragma once

#include <memory>
#include <vector>

#include "gpu/sim/nccl_communicator.h"

namespace fathom::gpu::sim {

/// What ranks say about an operation before they exchange data, so that each can compare.
struct Description {
  enum Kind : std::int32_t { all_reduce, reduce_scatter, all_gather, broadcast, message };
  std::int32_t kind;
  std::int32_t type;
  std::int32_t op = 0;    ///< of a reduction
  std::int32_t root = 0;  ///< of a broadcast
  std::uint64_t count = 0;
  std::uint64_t number = 0;  ///< among the communicator's operations; 0 for a message
  bool operator==(const Description&) const = default;
};

/// "all-reduce 7 (sum) of 100 floats".
std::string to_string(const Description& description);

/// The bytes of one element; 0 for a type that the stand-in does not know.
std::size_t size_of(ncclDataType_t type);

/// Device memory that an operation reads and writes; they are the same where it works in place.
struct Buffers {
  const void* send = nullptr;
  void* recv = nullptr;
};

/// One rank's part of an operation that runs on a stream.
class Operation {
 public:
  virtual ~Operation() = default;
  /// Goes on as far as it can without blocking; true once it has ended. What the ranks disagree
  /// about fails the communicator, and the operation never ends.
  virtual bool advance() = 0;
};

std::unique_ptr<Operation> make_collective(std::shared_ptr<ncclComm> comm,
                                           const Description& description, Buffers buffers);
std::unique_ptr<Operation> make_send(std::shared_ptr<ncclComm> comm, const Description& description,
                                     const void* data, int peer);
std::unique_ptr<Operation> make_receive(std::shared_ptr<ncclComm> comm,
                                        const Description& description, void* data, int peer);

/// Puts operations that were issued together on a stream, as one piece of work of a communicator.
/// It fails the communicator when an earlier piece has not ended by the time that this one starts.
void issue(std::shared_ptr<ncclComm> comm, std::vector<std::unique_ptr<Operation>> operations,
           cudaStream_t stream);

}  // namespace fathom::gpu::sim
