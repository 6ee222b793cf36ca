// The main of every test binary with RANKS: starts MPI, refuses a wrong rank count, and ends each
// test on all ranks together, so that a rank that left a test early cannot make its peers hang.

#include "mpi_main.h"

#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>
#include <string>
#include <thread>

#include "comm/mpi/mpi_session.h"

namespace fathom::test {
namespace {

using Clock = std::chrono::steady_clock;

comm::MpiSession* g_session = nullptr;

/// After each test the ranks meet in a group of their own, which no unfinished collective of the
/// test can be confused with. A failed rank waits a short time only.
class MeetAfterEachTest : public testing::EmptyTestEventListener {
 public:
  MeetAfterEachTest() : group_(g_session->world().split(0, g_session->world().rank())) {}

  void OnTestPartResult(const testing::TestPartResult& result) override {
    // Rank 0 prints through GoogleTest's own printer.
    if (!result.failed() || group_->rank() == 0) return;
    std::cerr << "rank " << group_->rank() << ": ";
    // An exception that nobody caught has no place.
    if (result.file_name()) std::cerr << result.file_name() << ":" << result.line_number() << ": ";
    std::cerr << result.message() << std::endl;
  }

  void OnTestEnd(const testing::TestInfo& info) override {
    float failed = info.result()->Failed() ? 1.0f : 0.0f;
    const auto deadline = Clock::now() + std::chrono::seconds(failed > 0 ? 10 : 240);
    auto request = group_->start_all_reduce(&failed, 1, comm::ReduceOp::max);
    while (!request.test()) {
      if (Clock::now() > deadline) {
        std::cerr << "rank " << group_->rank() << ": another rank did not reach the end of test "
                  << info.name() << std::endl;
        g_session->abort(1);
      }
      std::this_thread::yield();
    }
    failed_ = failed_ || failed > 0;
  }

  bool failed() const { return failed_; }

 private:
  std::unique_ptr<comm::Communicator> group_;
  bool failed_ = false;
};

int run_tests() {
  const char* wanted = std::getenv("FATHOM_TEST_RANKS");
  const int ranks = g_session->world().size();
  if (!wanted || std::to_string(ranks) != wanted) {
    std::cerr << "this test needs FATHOM_TEST_RANKS=" << (wanted ? wanted : "(unset)")
              << " ranks under mpirun, but " << ranks << " came up" << std::endl;
    return 1;
  }
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (g_session->world().rank() != 0) delete listeners.Release(listeners.default_result_printer());
  MeetAfterEachTest meet;
  listeners.Append(&meet);
  const int local = RUN_ALL_TESTS();
  listeners.Release(&meet);
  return local != 0 || meet.failed() ? 1 : 0;
}

}  // namespace

comm::Communicator& world() {
  return g_session->world();
}

}  // namespace fathom::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  fathom::comm::MpiOptions options;
  options.chunk_bytes = 1000;
  options.shared_min_bytes = 2000;
  options.shared_group_bytes = 9600;
  fathom::comm::MpiSession session(options);
  fathom::test::g_session = &session;
  try {
    return fathom::test::run_tests();
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    session.abort(1);
  }
}
