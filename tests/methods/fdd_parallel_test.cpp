// FDD with the vocabulary spread over tensor ranks equals the whole one.

#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "fdd_case.h"

namespace fathom::test {
namespace {

using kernels::DynamicsLoss;

class SpreadFdd : public testing::Test {
 protected:
  void expect_equals_whole(const FddSizes& s, const DynamicsLoss& loss, const FddValues& values) {
    const FddOutcome whole = run_fdd(*device_, nullptr, s, loss, 3, values);
    const FddOutcome spread = run_fdd(*device_, &world(), s, loss, 3, values);
    const double bound = tolerance({whole.sums.trajectory, whole.sums.derivative, 1.0}, s.vocab);
    EXPECT_NEAR(spread.sums.trajectory, whole.sums.trajectory, bound);
    EXPECT_NEAR(spread.sums.derivative, whole.sums.derivative, bound);
    EXPECT_EQ(spread.sums.tokens, s.rows);
    const Doubles states(whole.states.begin(), whole.states.end());
    expect_close(spread.states, states, tolerance(states, s.vocab), "states");
    model::ModelSpec spec;
    spec.heads = spec.kv_heads = spec.ffn = 6;
    spec.vocab = s.vocab;
    const model::Shard mine = model::make_shard(spec, world().rank(), world().size(), s.counted());
    const auto begin = whole.head.begin() + mine.first_vocab * s.width;
    const Doubles head(begin, begin + mine.vocab * s.width);
    expect_close(spread.head, head, tolerance(head, s.vocab), "head");
  }

  // MPI copies straight out of another process's memory, so that it cannot be guarded.
  std::unique_ptr<Device> device_ = test::make_device(std::size_t{256} << 20);
};

TEST_F(SpreadFdd, EqualsTheWholeOne) {
  for (const FddSizes& s : {FddSizes{3, 10, 16, 503, 24, 503}, FddSizes{3, 10, 16, 503, 24, 500},
                            FddSizes{2, 10, 16, 500, 24, 503}})
    for (const DynamicsLoss& loss :
         {DynamicsLoss{.trajectory_weight = 1}, DynamicsLoss{.derivative_weight = 1},
          DynamicsLoss{.trajectory_weight = 0.5f, .derivative_weight = 2, .temperature = 2}}) {
      SCOPED_TRACE(std::to_string(s.vocab) + " against " + std::to_string(s.teacher_vocab));
      expect_equals_whole(s, loss, fdd_values(s));
    }
}

// Three ranks and four entries: the last rank has none.
TEST_F(SpreadFdd, ARankWithoutEntriesTakesPart) {
  const FddSizes s{2, 5, 3, 4, 2, 4};
  expect_equals_whole(s, {.trajectory_weight = 1, .derivative_weight = 1}, fdd_values(s));
}

}  // namespace
}  // namespace fathom::test
