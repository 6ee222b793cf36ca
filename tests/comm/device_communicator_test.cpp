// Groups whose devices move their own memory. Where memory of devices is the host's they are plain
// groups, which must give the same results.

#include "comm/device_communicator.h"

#include <gtest/gtest.h>

#include "comm/process_grid.h"
#include "core/tensor.h"
#include "kernels/backend.h"
#include "kernels/elementwise.h"
#include "mpi_main.h"
#include "tests/support/expect_error.h"

namespace fathom::comm {
namespace {

using fathom::testing::expect_error;

const std::vector<std::int64_t> kCounts = {1, 7, 250, 1000, 12345};

class DeviceCommunicatorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Communicator> group_of_all() {
    return on_devices(test::world().split(0, rank_), *device_, DeviceTraffic::messages_too);
  }
  Tensor upload(const std::vector<float>& values) {
    return Tensor::from_host(*device_, {static_cast<std::int64_t>(values.size())}, values);
  }
  Tensor filled(std::int64_t n, float value) {
    const Tensor tensor = Tensor::empty(*device_, {n});
    kernels::fill(tensor, value);
    return tensor;
  }
  static std::vector<float> same(std::int64_t n, float value) {
    return std::vector<float>(static_cast<std::size_t>(n), value);
  }
  /// What rank r holds at i: small whole numbers, so that every order of a sum gives the same.
  static float element(int r, std::int64_t i) {
    return static_cast<float>((r + 1) * 3 + static_cast<int>(i % 17));
  }
  std::vector<float> elements(int r, std::int64_t n) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < n; ++i) values.push_back(element(r, i));
    return values;
  }
  static std::size_t size(const Tensor& tensor) {
    return static_cast<std::size_t>(tensor.elements());
  }

  // Within a KernelScope, as device memory asks for.
  void all_reduce(Communicator& group, const Tensor& tensor, ReduceOp op = ReduceOp::sum) {
    const KernelScope scope(*device_);
    group.all_reduce(tensor.ptr<float>(), size(tensor), op);
  }
  Request start_all_reduce(Communicator& group, const Tensor& tensor) {
    const KernelScope scope(*device_);
    return group.start_all_reduce(tensor.ptr<float>(), size(tensor), ReduceOp::sum);
  }
  Request send(Communicator& group, const Tensor& tensor, int peer, int tag) {
    const KernelScope scope(*device_);
    return group.start_send(tensor.ptr<float>(), tensor.bytes(), peer, tag);
  }
  Request receive(Communicator& group, const Tensor& tensor, int peer, int tag) {
    const KernelScope scope(*device_);
    return group.start_recv(tensor.ptr<float>(), tensor.bytes(), peer, tag);
  }

  int rank_ = test::world().rank();
  int size_ = test::world().size();
  std::unique_ptr<Device> device_ = test::make_device(std::size_t{64} << 20);
};

TEST_F(DeviceCommunicatorTest, AllReduceOfEverySize) {
  const auto group = group_of_all();
  for (const std::int64_t n : kCounts) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      const Tensor data = upload(elements(rank_, n));
      all_reduce(*group, data, op);
      std::vector<float> expected = elements(op == ReduceOp::max ? size_ - 1 : 0, n);
      if (op == ReduceOp::sum)
        for (std::int64_t i = 0; i < n; ++i)
          for (int r = 1; r < size_; ++r) expected[static_cast<std::size_t>(i)] += element(r, i);
      ASSERT_EQ(to_host(data), expected) << n << " elements";
    }
  }
}

TEST_F(DeviceCommunicatorTest, BroadcastFromEveryRoot) {
  const auto group = group_of_all();
  for (int root = 0; root < size_; ++root) {
    for (const std::int64_t n : kCounts) {
      const Tensor data = upload(elements(rank_, n));
      {
        const KernelScope scope(*device_);
        group->broadcast(data.ptr<float>(), data.bytes(), root);
      }
      ASSERT_EQ(to_host(data), elements(root, n));
    }
  }
}

TEST_F(DeviceCommunicatorTest, GatherAndReduceScatterKeepTheOrderOfRanks) {
  if (size_ == 1) GTEST_SKIP() << "no group of devices";
  const auto group = group_of_all();
  for (const std::int64_t n : kCounts) {
    const Tensor mine = upload(elements(rank_, n)), all = Tensor::empty(*device_, {size_, n}),
                 back = Tensor::empty(*device_, {n});
    {
      const KernelScope scope(*device_);
      group->all_gather(mine.ptr<float>(), mine.bytes(), all.ptr<float>());
      group->reduce_scatter(all.ptr<float>(), back.ptr<float>(), size(back));
    }
    std::vector<float> gathered, sum = elements(rank_, n);
    for (int r = 0; r < size_; ++r)
      for (const float value : elements(r, n)) gathered.push_back(value);
    for (float& value : sum) value *= static_cast<float>(size_);
    ASSERT_EQ(to_host(all), gathered);
    ASSERT_EQ(to_host(back), sum);
  }
}

TEST_F(DeviceCommunicatorTest, MemoryOfTheHostGoesAsBefore) {
  const auto group = group_of_all();
  const Tensor on_device = filled(500, 1);
  all_reduce(*group, on_device);
  std::vector<float> floats(700, 2.0f);
  group->all_reduce(floats.data(), floats.size(), ReduceOp::sum);
  double number = 0.5;
  group->all_reduce(&number, 1, ReduceOp::sum);
  all_reduce(*group, on_device);
  EXPECT_EQ(floats, std::vector<float>(700, static_cast<float>(2 * size_)));
  EXPECT_EQ(number, 0.5 * size_);
  EXPECT_EQ(to_host(on_device), same(500, static_cast<float>(size_ * size_)));
  EXPECT_EQ(group->broadcast_text(rank_ == 0 ? "text" : "", 0), "text");
  EXPECT_TRUE(group->all_agree(true));
}

TEST_F(DeviceCommunicatorTest, EachCallSeesTheKernelsBeforeItAndIsSeenByThoseAfter) {
  const auto group = group_of_all();
  const Tensor data = filled(3000, 1), sum = filled(3000, 0);
  float value = 1, total = 0;
  for (int round = 0; round < 8; ++round) {
    all_reduce(*group, data);
    kernels::accumulate(data, sum);
    kernels::fill(data, static_cast<float>(round + 2));
    total += value * static_cast<float>(size_);
    value = static_cast<float>(round + 2);
  }
  EXPECT_EQ(to_host(sum), same(3000, total));
}

TEST_F(DeviceCommunicatorTest, StartedAllReducesRunBesideKernels) {
  const auto group = group_of_all();
  std::vector<Tensor> data;
  std::vector<Request> requests;
  const Tensor other = filled(1000, 0), one = filled(1000, 1);
  for (int k = 0; k < 4; ++k) {
    data.push_back(filled(2000 + 100 * k, static_cast<float>(rank_ + k)));
    requests.push_back(start_all_reduce(*group, data.back()));
    kernels::accumulate(one, other);
  }
  all_reduce(*group, one);  // of the same group, while those are on their way
  while (!requests[1].test()) {
  }
  for (Request& request : requests) request.wait();
  const int ranks_sum = size_ * (size_ - 1) / 2;
  for (int k = 0; k < 4; ++k) {
    const Tensor& tensor = data[static_cast<std::size_t>(k)];
    EXPECT_EQ(to_host(tensor), same(tensor.elements(), static_cast<float>(ranks_sum + size_ * k)));
  }
  EXPECT_EQ(to_host(other), same(1000, 4));
  EXPECT_EQ(to_host(one), same(1000, static_cast<float>(size_)));
}

TEST_F(DeviceCommunicatorTest, RingOfMessages) {
  if (size_ == 1) GTEST_SKIP() << "no group of devices";
  const auto group = group_of_all();
  const int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
  for (const std::int64_t n : kCounts) {
    const Tensor out = filled(n, static_cast<float>(rank_)), in = Tensor::empty(*device_, {n});
    Request received = receive(*group, in, previous, 5);
    Request sent = send(*group, out, next, 5);
    received.wait();
    sent.wait();
    ASSERT_EQ(to_host(in), same(n, static_cast<float>(previous)));
  }
}

/// As 1F1B does: bundles on their way up while gradients come down, several of each in flight.
TEST_F(DeviceCommunicatorTest, CrossingMessages) {
  if (size_ == 1) GTEST_SKIP() << "no group of devices";
  const auto group = group_of_all();
  const auto value = [](int from, int m) { return static_cast<float>(100 * from + m); };
  constexpr int kMessages = 6;
  std::vector<Tensor> kept;
  std::vector<Request> requests;
  std::vector<std::pair<Tensor, float>> expected;
  for (int m = 0; m < kMessages; ++m) {
    for (const int peer : {rank_ + 1, rank_ - 1}) {
      if (peer < 0 || peer >= size_) continue;
      kept.push_back(filled(400 + m, value(rank_, m)));
      requests.push_back(send(*group, kept.back(), peer, m));
    }
    for (const int peer : {rank_ - 1, rank_ + 1}) {
      if (peer < 0 || peer >= size_) continue;
      const Tensor in = Tensor::empty(*device_, {400 + m});
      receive(*group, in, peer, m).wait();
      expected.emplace_back(in, value(peer, m));
    }
  }
  for (Request& request : requests) request.wait();
  for (const auto& [tensor, number] : expected)
    EXPECT_EQ(to_host(tensor), same(tensor.elements(), number));
}

TEST_F(DeviceCommunicatorTest, MemoryMayBeReusedAfterTheWait) {
  if (size_ == 1) GTEST_SKIP() << "no group of devices";
  const auto group = group_of_all();
  const int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
  Tensor sum = filled(5000, 0);
  for (int round = 0; round < 5; ++round) {
    Request sent;
    Tensor out = filled(5000, static_cast<float>(rank_ + round));
    const Tensor in = Tensor::empty(*device_, {5000});
    sent = send(*group, out, next, round);
    receive(*group, in, previous, round).wait();
    sent.wait();
    out = Tensor();
    filled(5000, -1);  // most likely in the same place
    kernels::accumulate(in, sum);
  }
  EXPECT_EQ(to_host(sum), same(5000, static_cast<float>(5 * previous + 10)));
}

TEST_F(DeviceCommunicatorTest, SubGroupsAreGroupsOfDevicesToo) {
  const auto group = group_of_all();
  const auto half = group->split(rank_ % 2, -rank_);
  const Tensor data = filled(300, static_cast<float>(rank_));
  all_reduce(*half, data);
  int sum = 0;
  for (int r = rank_ % 2; r < size_; r += 2) sum += r;
  EXPECT_EQ(to_host(data), same(300, static_cast<float>(sum)));
  EXPECT_EQ(group->split(-1, 0), nullptr);
}

TEST_F(DeviceCommunicatorTest, GroupsOfAGrid) {
  for (const GridShape& shape :
       {GridShape{size_, 1, 1}, GridShape{1, size_, 1}, GridShape{1, 1, size_},
        GridShape{size_ / 2, 1, 2}, GridShape{1, size_ / 2, 2}, GridShape{2, size_ / 2, 1}}) {
    if (shape.ranks() != size_) continue;
    SCOPED_TRACE(to_string(shape));
    ProcessGrid grid(test::world(), shape, *device_);
    for (Communicator* group : {&grid.dp(), &grid.pp(), &grid.tp(), grid.first_last()}) {
      if (group == nullptr) continue;
      std::int64_t ranks = rank_;
      group->all_reduce(&ranks, 1, ReduceOp::sum);
      const Tensor data = filled(200, static_cast<float>(rank_));
      start_all_reduce(*group, data).wait();
      EXPECT_EQ(to_host(data), same(200, static_cast<float>(ranks)));
    }
    const auto replicas = grid.make_kv_replica_group(1);
    const Tensor data = filled(200, 1);
    all_reduce(*replicas, data);
    EXPECT_EQ(to_host(data), same(200, static_cast<float>(replicas->size())));
  }
}

TEST_F(DeviceCommunicatorTest, WhatDevicesDoNotKnowIsRefused) {
  if (size_ == 1 || !kernels::backend().owns_memory) GTEST_SKIP() << "no group of devices";
  const auto group = group_of_all();
  const Tensor data = filled(16, 1);
  std::vector<float> host(16);
  const auto refused = [&](const std::function<void()>& call, const std::string& text) {
    expect_error(ErrorKind::internal, call, text);
  };
  refused([&] { group->all_reduce(data.ptr<double>(), 4, ReduceOp::sum); },
          "all-reduce of doubles");
  refused([&] { group->all_gather(host.data(), 8, data.ptr<float>()); }, "the other the host's");
  const auto reductions =
      on_devices(test::world().split(0, rank_), *device_, DeviceTraffic::collectives);
  refused([&] { send(*reductions, data, (rank_ + 1) % size_, 0); }, "collectives only");
}

}  // namespace
}  // namespace fathom::comm
