// LoReFT in decoding: prompts are edited when they are read, answers never, so that one pass over
// both gives the same probabilities, on every grid.

#include "tests/train/golden_step.h"
#include "tests/train/teacher_forcing.h"

namespace fathom::train {
namespace {

class Loreft : public ::testing::TestWithParam<comm::GridShape> {};

TEST_P(Loreft, DecodingIsTeacherForcing) {
  const auto device = test::make_device(std::size_t{1} << 28);
  comm::ProcessGrid grid(test::world(), GetParam(), *device);
  TrainConfig config = golden_step::config(GetParam());
  config.adapter.spec.kind = methods::adapters::Kind::loreft;
  config.adapter.spec.rank = 3;
  config.adapter.spec.prefix = 2;
  config.adapter.spec.suffix = 3;
  for (const bool tied : {true, false}) {
    SCOPED_TRACE(tied ? "tied" : "split");
    config.adapter.spec.tied = tied;
    Engine engine(*device, grid, config, make_engine_plan(config), false);
    engine.load_initial_weights();
    // Edits about as large as states, so that a token too many or too few is seen.
    golden_step::randomise(engine, "loreft", 0.2);
    // From a prompt that has no half to edit to those with tokens that are left alone.
    for (const std::size_t shortest : {1u, 9u})
      teacher_forcing::expect_same_as_decoding(engine, teacher_forcing::prompts(shortest));
  }
}

INSTANTIATE_TEST_SUITE_P(AllGrids, Loreft,
                         ::testing::ValuesIn(small::grids(small::launched_ranks())),
                         [](const auto& grid) { return small::name_of(grid.param); });

}  // namespace
}  // namespace fathom::train
