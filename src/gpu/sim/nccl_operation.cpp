#include "gpu/sim/nccl_operation.h"

#include <cstring>

#include "gpu/sim/settings.h"
#include "gpu/sim/streams.h"

namespace fathom::gpu::sim {
namespace {

const char* name_of(std::int32_t kind) {
  switch (kind) {
    case Description::all_reduce:
      return "all-reduce";
    case Description::reduce_scatter:
      return "reduce-scatter";
    case Description::all_gather:
      return "all-gather";
    case Description::broadcast:
      return "broadcast";
    default:
      return "message";
  }
}

const char* op_name(std::int32_t op) {
  return op == ncclMax ? "max" : op == ncclMin ? "min" : "sum";
}

/// A message leaves when its receiver asks for it. What it is goes ahead.
class Send final : public Operation {
 public:
  Send(std::shared_ptr<ncclComm> comm, const Description& description, const void* data, int peer)
      : comm_(std::move(comm)), own_(description), data_(data), peer_(peer) {}

  bool advance() override {
    if (!messages_) start();
    if (!messages_->done()) return false;
    if (sent_.empty() || std::memcmp(sent_.data(), data_, sent_.size()) == 0) return true;
    comm_->fail(ncclInvalidUsage, "a message to rank " + std::to_string(peer_) +
                                      " was written to before it had been received");
    return false;
  }

 private:
  void start() {
    messages_ = std::make_unique<Messages>();
    const auto* bytes = static_cast<const std::byte*>(data_);
    sent_.assign(bytes, bytes + own_.count * size_of(static_cast<ncclDataType_t>(own_.type)));
    const int to = comm_->world[static_cast<std::size_t>(peer_)];
    messages_->send(&own_, sizeof own_, to, comm_->tag + kMessageTag);
    messages_->send(sent_.data(), sent_.size(), to, comm_->tag + kMessageDataTag);
  }

  std::shared_ptr<ncclComm> comm_;
  Description own_;
  const void* data_;
  int peer_;
  std::vector<std::byte> sent_;
  std::unique_ptr<Messages> messages_;
};

class Receive final : public Operation {
 public:
  Receive(std::shared_ptr<ncclComm> comm, const Description& description, void* data, int peer)
      : comm_(std::move(comm)), own_(description), data_(data), peer_(peer) {}

  bool advance() override {
    if (!announcement_) start();
    if (!announcement_->done() || differs()) return false;
    if (!payload_) {
      payload_ = std::make_unique<Messages>();
      received_ = &payload_->receive(bytes(), from(), comm_->tag + kMessageDataTag);
    }
    if (!payload_->done()) return false;
    if (bytes() > 0) std::memcpy(data_, received_->data(), bytes());
    return true;
  }

 private:
  std::size_t bytes() const { return own_.count * size_of(static_cast<ncclDataType_t>(own_.type)); }
  int from() const { return comm_->world[static_cast<std::size_t>(peer_)]; }

  void start() {
    announcement_ = std::make_unique<Messages>();
    said_ = &announcement_->receive(sizeof own_, from(), comm_->tag + kMessageTag);
    std::memset(data_, 0xff, bytes());  // NaN for who reads it without waiting
  }

  bool differs() {
    Description other{};
    std::memcpy(&other, said_->data(), sizeof other);
    if (other == own_) return false;
    comm_->fail(ncclInvalidUsage, "rank " + std::to_string(comm_->rank) + " expects a " +
                                      to_string(own_) + " from rank " + std::to_string(peer_) +
                                      ", which sends a " + to_string(other));
    return true;
  }

  std::shared_ptr<ncclComm> comm_;
  Description own_;
  void* data_;
  int peer_;
  std::unique_ptr<Messages> announcement_, payload_;
  const std::vector<std::byte>* said_ = nullptr;
  const std::vector<std::byte>* received_ = nullptr;
};

/// One or more operations of a communicator that end together.
class Work {
 public:
  Work(std::shared_ptr<ncclComm> comm, std::vector<std::unique_ptr<Operation>> operations)
      : comm_(std::move(comm)), operations_(std::move(operations)), number_(++comm_->issued) {}

  /// True once it has ended, or never will.
  bool advance() {
    if (comm_->aborted) {
      operations_.clear();
      return true;
    }
    if (comm_->state != ncclSuccess) return false;
    if (number_ == settings().nccl_fails) {
      comm_->fail(ncclSystemError, "FATHOM_SIM_NCCL_FAILS is " + std::to_string(number_));
      return false;
    }
    if (comm_->completed + 1 != number_) {
      comm_->fail(ncclInvalidUsage, "operation " + std::to_string(number_) +
                                        " of the communicator starts when only " +
                                        std::to_string(comm_->completed) +
                                        " have ended: its streams are not in order");
      return false;
    }
    std::erase_if(operations_, [](const auto& operation) { return operation->advance(); });
    if (!operations_.empty()) return false;
    ++comm_->completed;
    return true;
  }

 private:
  std::shared_ptr<ncclComm> comm_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::uint64_t number_;
};

}  // namespace

std::string to_string(const Description& d) {
  std::string text = name_of(d.kind);
  if (d.kind != Description::message) text += " " + std::to_string(d.number);
  if (d.kind == Description::all_reduce || d.kind == Description::reduce_scatter)
    text += std::string(" (") + op_name(d.op) + ")";
  if (d.kind == Description::broadcast) text += " from rank " + std::to_string(d.root);
  return text + " of " + std::to_string(d.count) + (d.type == ncclFloat32 ? " floats" : " bytes");
}

std::size_t size_of(ncclDataType_t type) {
  return type == ncclFloat32 ? sizeof(float) : type == ncclUint8 ? 1 : 0;
}

std::unique_ptr<Operation> make_send(std::shared_ptr<ncclComm> comm, const Description& description,
                                     const void* data, int peer) {
  return std::make_unique<Send>(std::move(comm), description, data, peer);
}

std::unique_ptr<Operation> make_receive(std::shared_ptr<ncclComm> comm,
                                        const Description& description, void* data, int peer) {
  return std::make_unique<Receive>(std::move(comm), description, data, peer);
}

void issue(std::shared_ptr<ncclComm> comm, std::vector<std::unique_ptr<Operation>> operations,
           cudaStream_t stream) {
  auto work = std::make_shared<Work>(std::move(comm), std::move(operations));
  enqueue_polled(stream, [work] { return work->advance(); });
}

}  // namespace fathom::gpu::sim
