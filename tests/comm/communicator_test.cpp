#include "comm/communicator.h"

#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "mpi_main.h"

namespace fathom::comm {
namespace {

// Sizes around the test world's limits (1,000-byte split, shared memory from 2,000 bytes in pieces
// of 1,200): below, at, just above, and many pieces.
const std::vector<std::size_t> kCounts = {0, 1, 7, 249, 250, 251, 499, 500, 1000, 12345};

class CommunicatorTest : public testing::Test {
 protected:
  Communicator& world_ = test::world();
  int rank_ = world_.rank();
  int size_ = world_.size();
};

template <typename T>
T element(int rank, std::size_t i) {
  return static_cast<T>((rank + 1) * 3 + static_cast<int>(i % 17));
}

template <typename T>
void check_all_reduce(Communicator& world) {
  for (const std::size_t n : kCounts) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      std::vector<T> data(n);
      for (std::size_t i = 0; i < n; ++i) data[i] = element<T>(world.rank(), i);
      world.all_reduce(data.data(), n, op);
      for (std::size_t i = 0; i < n; ++i) {
        T sum = 0;
        for (int r = 0; r < world.size(); ++r) sum += element<T>(r, i);
        const T expected = op == ReduceOp::sum   ? sum
                           : op == ReduceOp::max ? element<T>(world.size() - 1, i)
                                                 : element<T>(0, i);
        ASSERT_EQ(data[i], expected) << "n " << n << ", element " << i;
      }
    }
  }
}

TEST_F(CommunicatorTest, AllReduceOfEveryTypeAndSize) {
  check_all_reduce<float>(world_);
  check_all_reduce<double>(world_);
  check_all_reduce<std::int64_t>(world_);
}

TEST_F(CommunicatorTest, StartedAllReducesFinishInAnyOrder) {
  std::vector<float> a(1000), b(3);
  std::fill(a.begin(), a.end(), 1.0f);
  std::fill(b.begin(), b.end(), static_cast<float>(rank_));
  auto first = world_.start_all_reduce(a.data(), a.size(), ReduceOp::sum);
  auto second = world_.start_all_reduce(b.data(), b.size(), ReduceOp::max);
  second.wait();
  while (!first.test()) {
  }
  EXPECT_EQ(a, std::vector<float>(1000, static_cast<float>(size_)));
  EXPECT_EQ(b, std::vector<float>(3, static_cast<float>(size_ - 1)));
}

TEST_F(CommunicatorTest, ManyLargeAllReducesAtOnceBesideMessages) {
  // More pieces than the shared slots hold, with a rendezvous that only progresses while the other
  // side is inside a call.
  std::vector<std::vector<float>> data;
  for (int k = 0; k < 5; ++k) data.emplace_back(3000 + 77 * k, static_cast<float>(rank_ + k));
  std::vector<Request> requests;
  std::vector<char> out(50000, static_cast<char>(rank_)), in(50000);
  requests.push_back(world_.start_send(out.data(), out.size(), (rank_ + 1) % size_, 1));
  for (auto& values : data)
    requests.push_back(world_.start_all_reduce(values.data(), values.size(), ReduceOp::sum));
  if (rank_ == 0) requests[3].wait();
  requests.push_back(world_.start_recv(in.data(), in.size(), (rank_ + size_ - 1) % size_, 1));
  std::vector<float> late(700, static_cast<float>(rank_));
  world_.all_reduce(late.data(), late.size(), ReduceOp::max);
  for (auto& request : requests) request.wait();
  EXPECT_EQ(late, std::vector<float>(700, static_cast<float>(size_ - 1)));
  for (int k = 0; k < 5; ++k) {
    const auto& values = data[static_cast<std::size_t>(k)];
    const auto sum = static_cast<float>(size_ * (size_ - 1) / 2 + size_ * k);
    EXPECT_EQ(values, std::vector<float>(values.size(), sum));
  }
}

TEST_F(CommunicatorTest, ASumDoesNotDependOnTheSizeOfTheMessage) {
  // The order of additions decides the last bit: whatever the piece, it is rank 0, 1, 2, ...
  const auto value = [](int r, std::size_t i) {
    return 1.0f / static_cast<float>(3 + r * 7 + static_cast<int>(i % 1013));
  };
  for (const std::size_t n : {std::size_t{501}, std::size_t{5000}}) {
    std::vector<float> data(n);
    for (std::size_t i = 0; i < n; ++i) data[i] = value(rank_, i);
    world_.all_reduce(data.data(), n, ReduceOp::sum);
    for (std::size_t i = 0; i < n; ++i) {
      float expected = value(0, i);
      for (int r = 1; r < size_; ++r) expected += value(r, i);
      ASSERT_EQ(data[i], expected) << i;
    }
  }
}

TEST_F(CommunicatorTest, BroadcastFromEveryRoot) {
  for (int root = 0; root < size_; ++root) {
    for (const std::size_t n : kCounts) {
      std::vector<char> data(n, static_cast<char>(rank_ == root ? 'a' + root : '?'));
      world_.broadcast(data.data(), n, root);
      ASSERT_EQ(data, std::vector<char>(n, static_cast<char>('a' + root)));
    }
  }
}

TEST_F(CommunicatorTest, AllGatherKeepsRankOrder) {
  for (const std::size_t n : kCounts) {
    std::vector<unsigned char> mine(n), all(n * static_cast<std::size_t>(size_));
    for (std::size_t i = 0; i < n; ++i) mine[i] = element<unsigned char>(rank_, i);
    world_.all_gather(mine.data(), n, all.data());
    for (int r = 0; r < size_; ++r)
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_EQ(all[static_cast<std::size_t>(r) * n + i], element<unsigned char>(r, i));
  }
}

TEST_F(CommunicatorTest, ReduceScatterGivesEachRankItsBlock) {
  for (const std::size_t n : kCounts) {
    std::vector<float> send(n * static_cast<std::size_t>(size_)), mine(n);
    for (std::size_t i = 0; i < send.size(); ++i) send[i] = element<float>(rank_, i);
    world_.reduce_scatter(send.data(), mine.data(), n);
    for (std::size_t i = 0; i < n; ++i) {
      float expected = 0;
      for (int r = 0; r < size_; ++r)
        expected += element<float>(r, static_cast<std::size_t>(rank_) * n + i);
      ASSERT_EQ(mine[i], expected);
    }
  }
}

TEST_F(CommunicatorTest, RingOfMessagesOfEverySize) {
  const int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
  for (const std::size_t n : kCounts) {
    std::vector<char> out(n, static_cast<char>(rank_)), in(n, 99);
    auto receive = world_.start_recv(in.data(), n, previous, 5);
    auto send = world_.start_send(out.data(), n, next, 5);
    receive.wait();
    send.wait();
    ASSERT_EQ(in, std::vector<char>(n, static_cast<char>(previous)));
  }
}

TEST_F(CommunicatorTest, TagsKeepMessagesApart) {
  std::vector<char> a(3000, 'a'), b(10, 'b'), got_a(3000), got_b(10);
  auto send_a = world_.start_send(a.data(), a.size(), rank_, 1);
  auto send_b = world_.start_send(b.data(), b.size(), rank_, 2);
  auto receive_b = world_.start_recv(got_b.data(), got_b.size(), rank_, 2);
  auto receive_a = world_.start_recv(got_a.data(), got_a.size(), rank_, 1);
  for (Request* request : {&receive_b, &receive_a, &send_a, &send_b}) request->wait();
  EXPECT_EQ(got_a, a);
  EXPECT_EQ(got_b, b);
}

TEST_F(CommunicatorTest, ADestroyedRequestIsComplete) {
  std::vector<int> in(5000, -1), out(5000, rank_);
  {
    auto receive = world_.start_recv(in.data(), 20000, (rank_ + size_ - 1) % size_, 0);
    auto send = world_.start_send(out.data(), 20000, (rank_ + 1) % size_, 0);
  }
  EXPECT_EQ(in.back(), (rank_ + size_ - 1) % size_);
}

TEST_F(CommunicatorTest, SplitOrdersByKeyAndLeavesOutNegativeColors) {
  const auto reversed = world_.split(0, size_ - rank_);
  EXPECT_EQ(reversed->size(), size_);
  EXPECT_EQ(reversed->rank(), size_ - 1 - rank_);

  const auto parity = world_.split(rank_ % 2, rank_);
  std::int64_t sum = rank_;
  parity->all_reduce(&sum, 1, ReduceOp::sum);
  std::int64_t expected = 0;
  for (int r = rank_ % 2; r < size_; r += 2) expected += r;
  EXPECT_EQ(sum, expected);

  const auto some = world_.split(rank_ == 0 ? -1 : 7, 0);
  EXPECT_EQ(some == nullptr, rank_ == 0);
  if (some) {
    EXPECT_EQ(some->size(), size_ - 1);
  }
}

TEST_F(CommunicatorTest, TextsOfUnequalLength) {
  const auto texts =
      world_.all_gather_text(std::string(static_cast<std::size_t>(rank_) * 700, 'x'));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(size_));
  for (int r = 0; r < size_; ++r)
    EXPECT_EQ(texts[static_cast<std::size_t>(r)].size(), static_cast<std::size_t>(r) * 700);
  EXPECT_EQ(world_.broadcast_text(rank_ == size_ - 1 ? "from the last" : "", size_ - 1),
            "from the last");
  EXPECT_EQ(world_.broadcast_text("", 0), "");
}

TEST_F(CommunicatorTest, AgreementNeedsEveryRank) {
  EXPECT_TRUE(world_.all_agree(true));
  EXPECT_FALSE(world_.all_agree(rank_ != size_ - 1));
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::comm);
    return error.what();
  }
  return "no error";
}

TEST_F(CommunicatorTest, ErrorsNameCallPeerTagAndSize) {
  char byte = 0;
  const auto text = message_of([&] { world_.start_send(&byte, 1, size_ + 3, 6).wait(); });
  for (const auto& part : {str("rank ", rank_), str("MPI_Isend"), str("rank ", size_ + 3),
                           str("tag 6"), str("1 bytes")})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST_F(CommunicatorTest, ASizeThatTheTwoSidesDisagreeOnIsAnError) {
  std::vector<char> in(40), out(16);
  const int next = (rank_ + 1) % size_, previous = (rank_ + size_ - 1) % size_;
  for (const std::size_t expected : {std::size_t{8}, std::size_t{40}}) {
    if (size_ == 1 && expected < out.size())
      continue;  // Open MPI cuts a message to itself silently
    auto receive = world_.start_recv(in.data(), expected, previous, 3);
    auto send = world_.start_send(out.data(), out.size(), next, 3);
    EXPECT_NE(message_of([&] { receive.wait(); }).find("tag 3"), std::string::npos) << expected;
    send.wait();
  }
}

TEST(SelfCommunicator, DeliversToItselfAndRefusesToWaitForNobody) {
  const auto self = self_communicator();
  char out[3] = "hi", in[3] = "";
  auto send = self->start_send(out, 3, 0, 4);
  EXPECT_FALSE(send.test());
  EXPECT_NE(message_of([&] { self->start_recv(in, 3, 0, 5).wait(); }).find("forever"),
            std::string::npos);
  self->start_recv(in, 3, 0, 4).wait();
  EXPECT_TRUE(send.test());
  EXPECT_STREQ(in, "hi");
  EXPECT_NE(message_of([&] { self->start_send(out, 3, 1, 0); }).find("rank 1"), std::string::npos);
}

}  // namespace
}  // namespace fathom::comm
