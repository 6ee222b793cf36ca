#include "comm/message_order.h"

#include <cstdlib>
#include <gtest/gtest.h>

#include "mpi_main.h"
#include "tests/support/expect_error.h"

namespace fathom::comm {
namespace {

using fathom::testing::expect_error;

/// Rank 0 sends two messages to each other rank, which takes them in this order.
void exchange(const std::vector<int>& tags,
              const std::function<void(const std::function<void()>&)>& judge) {
  Communicator& world = test::world();
  MessageOrder order(world);
  if (world.rank() == 0) {
    for (int peer = 1; peer < world.size(); ++peer)
      for (const int tag : {7, 8}) order.sending(peer, tag, 100);
  } else {
    judge([&] { order.receiving(0, tags[0], 100); });
    judge([&] { order.receiving(0, tags[1], 100); });
  }
}

TEST(MessageOrder, FindsMessagesThatAreTakenInAnotherOrder) {
  setenv("FATHOM_CHECK_MESSAGES", "1", 1);
  exchange({7, 8}, [](const std::function<void()>& receive) { EXPECT_NO_THROW(receive()); });
  exchange({8, 7}, [](const std::function<void()>& receive) {
    expect_error(ErrorKind::comm, receive, "expects a message with tag", "the next one has tag");
  });
  unsetenv("FATHOM_CHECK_MESSAGES");
}

TEST(MessageOrder, CostsNothingUnlessAskedFor) {
  exchange({3, 3}, [](const std::function<void()>& receive) { EXPECT_NO_THROW(receive()); });
}

}  // namespace
}  // namespace fathom::comm
