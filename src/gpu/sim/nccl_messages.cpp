#include "gpu/sim/nccl_messages.h"

#include <cstring>
#include <limits>

#include "core/error.h"

namespace fathom::gpu::sim {
namespace {

void check(int code) {
  if (code == MPI_SUCCESS) return;
  char reason[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, reason, &length);
  fail(ErrorKind::comm, "MPI under the stand-in for NCCL: ", reason);
}

int count_of(std::size_t bytes) {
  require(bytes <= static_cast<std::size_t>(std::numeric_limits<int>::max()), ErrorKind::comm,
          "the stand-in for NCCL moves at most 2 GiB at once, not ", bytes, " bytes");
  return static_cast<int>(bytes);
}

}  // namespace

Messages::~Messages() {
  // The library reads and writes buffers of messages on their way until the process ends.
  static std::list<Message>* const left_behind = new std::list<Message>;
  for (Message& message : pending_) MPI_Cancel(&message.request);
  left_behind->splice(left_behind->end(), pending_);
}

Messages::Message& Messages::add(std::size_t bytes) {
  Message& message = pending_.emplace_back();
  message.bytes.resize(bytes);
  return message;
}

void Messages::send(const void* data, std::size_t bytes, int to, int tag) {
  Message& message = add(bytes);
  if (bytes > 0) std::memcpy(message.bytes.data(), data, bytes);
  check(MPI_Issend(message.bytes.data(), count_of(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD,
                   &message.request));
}

const std::vector<std::byte>& Messages::receive(std::size_t bytes, int from, int tag) {
  Message& message = add(bytes);
  check(MPI_Irecv(message.bytes.data(), count_of(bytes), MPI_BYTE, from, tag, MPI_COMM_WORLD,
                  &message.request));
  return message.bytes;
}

bool Messages::done() {
  for (auto it = pending_.begin(); it != pending_.end();) {
    int finished = 0;
    check(MPI_Test(&it->request, &finished, MPI_STATUS_IGNORE));
    const auto message = it++;
    if (finished) finished_.splice(finished_.end(), pending_, message);
  }
  return pending_.empty();
}

int job_rank() {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

bool job_is_up() {
  int started = 0, ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  return started && !ended;
}

}  // namespace fathom::gpu::sim
