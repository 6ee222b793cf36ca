#include <algorithm>
#include <cstring>

#include "gpu/sim/nccl_operation.h"

namespace fathom::gpu::sim {
namespace {

using Bytes = std::vector<std::byte>;

float combine(ncclRedOp_t op, float a, float b) {
  return op == ncclMax ? std::max(a, b) : op == ncclMin ? std::min(a, b) : a + b;
}

/// All ranks first tell each other what they are about to do, then every rank sends what the others
/// need of its memory, and reduces in the order of ranks.
class Collective final : public Operation {
 public:
  Collective(std::shared_ptr<ncclComm> comm, const Description& description, Buffers buffers)
      : comm_(std::move(comm)), own_(description), buffers_(buffers) {}

  bool advance() override {
    if (!agreement_) ask();
    if (!agreement_->done()) return false;
    if (disagree()) return false;
    if (!data_) exchange();
    if (!data_->done()) return false;
    if (overwritten()) return false;
    write();
    return true;
  }

 private:
  std::size_t block() const { return own_.count * size_of(static_cast<ncclDataType_t>(own_.type)); }
  std::size_t send_bytes() const {
    if (own_.kind == Description::broadcast && comm_->rank != own_.root) return 0;
    const bool all = own_.kind == Description::reduce_scatter;
    return block() * static_cast<std::size_t>(all ? comm_->size() : 1);
  }

  template <typename F>
  void for_each_other(F f) {
    for (int r = 0; r < comm_->size(); ++r)
      if (r != comm_->rank) f(r, comm_->world[static_cast<std::size_t>(r)]);
  }

  void ask() {
    const auto* send = static_cast<const std::byte*>(buffers_.send);
    sent_.assign(send, send + send_bytes());
    // Who reads the result without waiting for it finds NaN.
    if (buffers_.recv != buffers_.send) std::memset(buffers_.recv, 0xff, recv_bytes());
    agreement_ = std::make_unique<Messages>();
    said_.assign(comm_->world.size(), nullptr);
    for_each_other([&](int r, int world) {
      agreement_->send(&own_, sizeof own_, world, comm_->tag + kAgreeTag);
      said_[static_cast<std::size_t>(r)] =
          &agreement_->receive(sizeof own_, world, comm_->tag + kAgreeTag);
    });
  }

  bool disagree() {
    for (int r = 0; r < comm_->size(); ++r) {
      if (r == comm_->rank) continue;
      Description other{};
      std::memcpy(&other, said_[static_cast<std::size_t>(r)]->data(), sizeof other);
      if (other == own_) continue;
      comm_->fail(ncclInvalidUsage, "rank " + std::to_string(comm_->rank) + " calls " +
                                        to_string(own_) + " where rank " + std::to_string(r) +
                                        " calls " + to_string(other));
      return true;
    }
    return false;
  }

  void exchange() {
    data_ = std::make_unique<Messages>();
    received_.assign(comm_->world.size(), nullptr);
    const bool scatters = own_.kind == Description::reduce_scatter;
    const bool from_root = own_.kind == Description::broadcast;
    for_each_other([&](int r, int world) {
      const std::size_t offset = scatters ? static_cast<std::size_t>(r) * block() : 0;
      if (!from_root || comm_->rank == own_.root)
        data_->send(sent_.data() + offset, block(), world, comm_->tag + kDataTag);
      if (!from_root || r == own_.root)
        received_[static_cast<std::size_t>(r)] =
            &data_->receive(block(), world, comm_->tag + kDataTag);
    });
  }

  std::size_t recv_bytes() const {
    const bool all = own_.kind == Description::all_gather;
    return block() * static_cast<std::size_t>(all ? comm_->size() : 1);
  }

  bool overwritten() {
    if (sent_.empty() || std::memcmp(sent_.data(), buffers_.send, sent_.size()) == 0) return false;
    comm_->fail(ncclInvalidUsage, "the memory of " + to_string(own_) +
                                      " was written to before the operation had ended");
    return true;
  }

  const std::byte* part_of(int r) const {
    if (r != comm_->rank) return received_[static_cast<std::size_t>(r)]->data();
    const bool scatters = own_.kind == Description::reduce_scatter;
    return sent_.data() + (scatters ? static_cast<std::size_t>(r) * block() : 0);
  }

  void write() {
    auto* recv = static_cast<std::byte*>(buffers_.recv);
    switch (own_.kind) {
      case Description::all_gather:
        for (int r = 0; r < comm_->size(); ++r)
          if (block() > 0)
            std::memcpy(recv + static_cast<std::size_t>(r) * block(), part_of(r), block());
        break;
      case Description::broadcast:
        if (block() > 0) std::memcpy(recv, part_of(own_.root), block());
        break;
      default:
        reduce(static_cast<float*>(buffers_.recv));
    }
  }

  void reduce(float* result) {
    for (std::size_t i = 0; i < own_.count; ++i) {
      float sum = element(0, i);
      for (int r = 1; r < comm_->size(); ++r)
        sum = combine(static_cast<ncclRedOp_t>(own_.op), sum, element(r, i));
      result[i] = sum;
    }
  }

  float element(int r, std::size_t i) const {
    float value;
    std::memcpy(&value, part_of(r) + i * sizeof value, sizeof value);
    return value;
  }

  std::shared_ptr<ncclComm> comm_;
  Description own_;
  Buffers buffers_;
  Bytes sent_;  // what the memory held when the operation began
  std::unique_ptr<Messages> agreement_, data_;
  std::vector<const Bytes*> said_, received_;
};

}  // namespace

std::unique_ptr<Operation> make_collective(std::shared_ptr<ncclComm> comm,
                                           const Description& description, Buffers buffers) {
  return std::make_unique<Collective>(std::move(comm), description, buffers);
}

}  // namespace fathom::gpu::sim
