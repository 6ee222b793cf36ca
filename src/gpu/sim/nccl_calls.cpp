// Operations in NCCL's own words: what a caller may ask for, checked where NCCL would crash or
// hang.

#include "gpu/sim/memory.h"
#include "gpu/sim/nccl_operation.h"
#include "gpu/sim/stream_queue.h"

namespace fathom::gpu::sim {
namespace {

/// What was asked for between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  std::shared_ptr<ncclComm> comm;
  cudaStream_t stream = nullptr;
  std::vector<std::unique_ptr<Operation>> operations;
};
thread_local Group group;

std::int32_t kind_of(ncclDataType_t type) {
  return static_cast<std::int32_t>(type);
}

/// A buffer of a call.
struct Range {
  const void* begin;
  std::size_t count;
};

bool on_device(const Range& range, std::size_t element) {
  const auto lock = lock_runtime();
  return check_device_range("NCCL", range.begin, range.count * element) == cudaSuccess;
}

/// Looks at a call's arguments, and hands the operation that `make` makes of them to the stream or
/// to the group that is open.
template <typename Make>
ncclResult_t call(ncclComm_t handle, ncclDataType_t type, std::initializer_list<Range> buffers,
                  cudaStream_t stream, Make make) {
  const auto comm = find(handle);
  if (!comm) return ncclInvalidArgument;
  if (comm->state != ncclSuccess) return comm->state;
  if (size_of(type) == 0) return comm->refuse("a type that the stand-in does not know");
  for (const Range& range : buffers)
    if (!on_device(range, size_of(type)))
      return comm->refuse("a buffer that does not lie in memory of a device");
  if (group.depth > 0) {
    const bool other = group.comm && (group.comm != comm || group.stream != stream);
    if (other) return comm->refuse("the stand-in knows groups of one communicator and stream");
    group.comm = comm;
    group.stream = stream;
    group.operations.push_back(make(comm));
    return ncclSuccess;
  }
  std::vector<std::unique_ptr<Operation>> one;
  one.push_back(make(comm));
  issue(comm, std::move(one), stream);
  return ncclSuccess;
}

auto collective(Description description, Buffers buffers) {
  return [=](const std::shared_ptr<ncclComm>& comm) {
    Description numbered = description;
    numbered.number = comm->issued + 1;
    return make_collective(comm, numbered, buffers);
  };
}

ncclResult_t reduce(Description description, ncclComm_t comm, std::initializer_list<Range> ranges,
                    Buffers buffers, cudaStream_t stream) {
  const auto known = find(comm);
  const bool op =
      description.op == ncclSum || description.op == ncclMax || description.op == ncclMin;
  if (known && (description.type != kind_of(ncclFloat32) || !op))
    return known->refuse("the stand-in reduces f32 by sum, max and min");
  return call(comm, ncclFloat32, ranges, stream, collective(description, buffers));
}

std::size_t ranks_of(ncclComm_t handle) {
  const auto comm = find(handle);
  return comm ? static_cast<std::size_t>(comm->size()) : 0;
}

bool is_other(ncclComm_t handle, int peer) {
  const auto comm = find(handle);
  return comm && 0 <= peer && peer < comm->size() && peer != comm->rank;
}

}  // namespace
}  // namespace fathom::gpu::sim

using namespace fathom::gpu::sim;

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  if (--group.depth > 0 || group.operations.empty()) return ncclSuccess;
  Group ended;
  std::swap(ended, group);
  issue(ended.comm, std::move(ended.operations), ended.stream);
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return reduce({.kind = Description::all_reduce,
                 .type = kind_of(type),
                 .op = static_cast<std::int32_t>(op),
                 .count = count},
                comm, {{send, count}, {recv, count}}, {send, recv}, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return reduce({.kind = Description::reduce_scatter,
                 .type = kind_of(type),
                 .op = static_cast<std::int32_t>(op),
                 .count = count},
                comm, {{send, count * ranks_of(comm)}, {recv, count}}, {send, recv}, stream);
}

ncclResult_t ncclAllGather(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, type, {{send, count}, {recv, count * ranks_of(comm)}}, stream,
              collective({.kind = Description::all_gather, .type = kind_of(type), .count = count},
                         {send, recv}));
}

ncclResult_t ncclBroadcast(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return call(
      comm, type, {{send, count}, {recv, count}}, stream,
      collective(
          {.kind = Description::broadcast, .type = kind_of(type), .root = root, .count = count},
          {send, recv}));
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  if (!is_other(comm, peer)) return ncclInvalidArgument;
  return call(comm, type, {{data, count}}, stream, [&](const std::shared_ptr<ncclComm>& found) {
    return make_send(found, {.kind = Description::message, .type = kind_of(type), .count = count},
                     data, peer);
  });
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (!is_other(comm, peer)) return ncclInvalidArgument;
  return call(comm, type, {{data, count}}, stream, [&](const std::shared_ptr<ncclComm>& found) {
    return make_receive(
        found, {.kind = Description::message, .type = kind_of(type), .count = count}, data, peer);
  });
}
