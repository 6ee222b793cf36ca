#include "comm/device_communicator.h"

#include "comm/message_order.h"
#include "core/error.h"
#include "kernels/backend.h"

namespace fathom::comm {
namespace {

DeviceReduce device_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return DeviceReduce::sum;
    case ReduceOp::max:
      return DeviceReduce::max;
    case ReduceOp::min:
      return DeviceReduce::min;
  }
  fail(ErrorKind::internal, "unknown ReduceOp ", static_cast<int>(op));
}

class DeviceRequest final : public Request::State {
 public:
  explicit DeviceRequest(std::unique_ptr<DeviceCollectives::Transfer> transfer)
      : transfer_(std::move(transfer)) {}
  void wait() override { transfer_->wait(); }
  bool test() override { return transfer_->test(); }
  /// What is in flight ends with its group.
  void abandon() noexcept override {}

 private:
  std::unique_ptr<DeviceCollectives::Transfer> transfer_;
};

class DeviceCommunicator final : public Communicator {
 public:
  DeviceCommunicator(std::unique_ptr<Communicator> host, Device& device, DeviceTraffic traffic)
      : host_(std::move(host)), device_(device), traffic_(traffic), order_(*host_) {
    const std::string id =
        host_->broadcast_text(host_->rank() == 0 ? kernels::new_collectives_id() : "", 0);
    note_device_call("connection", -1, -1);
    devices_ = kernels::make_collectives(device, id, host_->rank(), host_->size(),
                                         traffic == DeviceTraffic::messages_too);
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  void barrier() override { host_->barrier(); }

  void all_reduce(float* data, std::size_t n, ReduceOp op) override {
    if (!on_device(data, n)) return host_->all_reduce(data, n, op);
    note_device_call("all-reduce", -1, -1);
    devices_->all_reduce(data, n, device_op(op));
  }
  void all_reduce(double* data, std::size_t n, ReduceOp op) override {
    refuse_device(data, n, "all-reduce of doubles");
    host_->all_reduce(data, n, op);
  }
  void all_reduce(std::int64_t* data, std::size_t n, ReduceOp op) override {
    refuse_device(data, n, "all-reduce of integers");
    host_->all_reduce(data, n, op);
  }
  Request start_all_reduce(float* data, std::size_t n, ReduceOp op) override {
    if (!on_device(data, n)) return host_->start_all_reduce(data, n, op);
    note_device_call("all-reduce", -1, -1);
    return request(devices_->start_all_reduce(data, n, device_op(op)));
  }
  bool reduces_beside_kernels() const override { return true; }

  void broadcast(void* data, std::size_t bytes, int root) override {
    if (!on_device(data, bytes)) return host_->broadcast(data, bytes, root);
    note_device_call("broadcast", -1, -1);
    devices_->broadcast(data, bytes, root);
  }
  void all_gather(const void* send, std::size_t bytes, void* recv) override {
    if (!both_on_device(send, recv, bytes)) return host_->all_gather(send, bytes, recv);
    note_device_call("all-gather", -1, -1);
    devices_->all_gather(send, bytes, recv);
  }
  void reduce_scatter(const float* send, float* recv, std::size_t n) override {
    if (!both_on_device(send, recv, n)) return host_->reduce_scatter(send, recv, n);
    note_device_call("reduce-scatter", -1, -1);
    devices_->reduce_scatter(send, recv, n);
  }

  Request start_send(const void* data, std::size_t bytes, int peer, int tag) override {
    if (!on_device(data, bytes)) return host_->start_send(data, bytes, peer, tag);
    order_.sending(peer, tag, bytes);
    note_device_call("send", peer, tag);
    return request(devices_->start_send(data, bytes, peer));
  }
  Request start_recv(void* data, std::size_t bytes, int peer, int tag) override {
    if (!on_device(data, bytes)) return host_->start_recv(data, bytes, peer, tag);
    order_.receiving(peer, tag, bytes);
    note_device_call("receive", peer, tag);
    return request(devices_->start_recv(data, bytes, peer));
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    return on_devices(host_->split(color, key), device_, traffic_);
  }
  void note_device_call(const char* name, int peer, int tag) override {
    host_->note_device_call(name, peer, tag);
  }

 private:
  /// What has no bytes has no place either: it goes through the host.
  bool on_device(const void* data, std::size_t size) const {
    return size > 0 && device_.owns(data);
  }
  bool both_on_device(const void* send, const void* recv, std::size_t size) const {
    FATHOM_CHECK(on_device(send, size) == on_device(recv, size),
                 "one buffer is the device's and the other the host's");
    return on_device(send, size);
  }
  void refuse_device(const void* data, std::size_t size, const char* call) const {
    FATHOM_CHECK(!on_device(data, size), call, " in memory of the device");
  }
  static Request request(std::unique_ptr<DeviceCollectives::Transfer> transfer) {
    return Request(std::make_unique<DeviceRequest>(std::move(transfer)));
  }

  std::unique_ptr<Communicator> host_;
  Device& device_;
  DeviceTraffic traffic_;
  MessageOrder order_;
  std::unique_ptr<DeviceCollectives> devices_;
};

}  // namespace

std::unique_ptr<Communicator> on_devices(std::unique_ptr<Communicator> group, Device& device,
                                         DeviceTraffic traffic) {
  if (group == nullptr || group->size() == 1 || !kernels::backend().owns_memory) return group;
  return std::make_unique<DeviceCommunicator>(std::move(group), device, traffic);
}

}  // namespace fathom::comm
