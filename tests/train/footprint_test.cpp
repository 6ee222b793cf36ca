// What --dry-run foretells of a tuned model: the values that its blocks keep, against those that a
// step kept; and its arithmetic, against counts by hand.

#include "train/footprint.h"

#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "core/files.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"
#include "train/operation_counts.h"
#include "train/probe.h"
#include "train/run_state.h"
#include "train/state_losses.h"
#include "train/token_costs.h"

namespace fathom::train {
namespace {

using methods::adapters::Kind;

constexpr testing::SmallModel kModel{.layers = 12, .positions = 48};

struct Case {
  std::string name;
  std::function<void(TrainConfig&)> set;
};

std::function<void(TrainConfig&)> adapter(Kind kind, std::vector<std::string> targets = {}) {
  return [=](TrainConfig& config) {
    config.adapter.spec.kind = kind;
    config.adapter.spec.rank = 4;
    config.adapter.spec.targets = targets;
  };
}

std::vector<Case> cases() {
  return {
      {"full", [](TrainConfig&) {}},
      {"lora", adapter(Kind::lora)},
      {"lora_all", adapter(Kind::lora, {"all-linear"})},
      {"lora_late",
       [](TrainConfig& config) {
         adapter(Kind::lora)(config);
         config.adapter.spec.layers = {8, 9, 10, 11};
       }},
      {"dora_all", adapter(Kind::dora, {"all-linear"})},
      {"vera_all", adapter(Kind::vera, {"all-linear"})},
      {"loreft", adapter(Kind::loreft)},
      {"control", adapter(Kind::parallel_control)},
      {"molex", adapter(Kind::molex)},
      {"moc", [](TrainConfig& config) { config.moc = {.enabled = true, .rank = 4, .top_k = 2}; }},
      {"frozen_below",
       [](TrainConfig& config) {
         config.model.freeze = {{"model.embed*", "model.layers.[0-5].*"}};
       }},
      {"mode_lora",
       [](TrainConfig& config) {
         adapter(Kind::lora)(config);
         config.mode.enabled = true;
         config.mode.spec.k = 3;
       }},
      {"mode_alone", [](TrainConfig& config) {
         config.model.freeze = {{"*"}};
         config.mode.enabled = true;
         config.mode.spec.k = 3;
       }}};
}

class Footprints : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TemporaryDirectory();
    testing::write_model(folder_->path(), kModel, 7);
  }
  static void TearDownTestSuite() { delete folder_; }

  static TrainConfig config(Recompute recompute) {
    TrainConfig config;
    config.model.path = folder_->path();
    config.batch = {.micro_batch = 3, .micro_batches = 1};
    config.memory.recompute = recompute;
    config.loss.chunk_rows = 16;
    return config;
  }

  // Full micro-batches of records as long as the context.
  static double kept_bytes(const TrainConfig& config, const EnginePlan& plan) {
    const auto device = test::make_device(std::size_t{1} << 28);
    comm::ProcessGrid grid(test::world(), {}, *device);
    Engine engine(*device, grid, config, plan, true);
    engine.load_initial_weights();
    data::MicroBatch batch;
    std::vector<std::int32_t> ids(static_cast<std::size_t>(kModel.positions));
    for (int s = 0; s < config.batch.micro_batch; ++s) {
      for (std::int32_t& id : ids) id = (id * 37 + 11 + s) % kModel.vocab;
      data::append(batch, {ids, 20}, s, s);
    }
    engine.forward_backward({batch}, data::RoleCounts(data::count(batch)), 0);
    double bytes = 0;
    for (const auto& [operation, kept] : engine.work().saved_bytes())
      bytes += static_cast<double>(kept);
    return bytes;
  }

  inline static testing::TemporaryDirectory* folder_ = nullptr;
};

class FootprintOf : public Footprints, public ::testing::WithParamInterface<Case> {};

TEST_P(FootprintOf, KeptValues) {
  for (const Recompute recompute : {Recompute::none, Recompute::cheap, Recompute::block}) {
    TrainConfig asked = config(recompute);
    GetParam().set(asked);
    const EnginePlan plan = make_engine_plan(asked);
    double foretold = 0;
    for (std::int64_t layer = 0; layer < plan.student.layers; ++layer)
      foretold += kept_per_token(plan, asked, layer);
    foretold *= 4.0 * asked.batch.micro_batch * kModel.positions;
    const double kept = kept_bytes(asked, plan);
    // The first trained block keeps less: its input has no gradient.
    EXPECT_LT(foretold, kept * (1 + 1.0 / kModel.layers)) << static_cast<int>(recompute);
    // Behind the blocks, states pass the last norm and their supervised rows the head.
    const double state = 4.0 * asked.batch.micro_batch * kModel.positions * kModel.hidden;
    const int votes = asked.mode.enabled ? asked.mode.spec.k : 0;
    EXPECT_LT(kept, foretold + state * (2 + votes)) << static_cast<int>(recompute);
  }
}

TEST_P(FootprintOf, TheCopyOfASave) {
  for (const DType frozen : {DType::f32, DType::bf16}) {
    TrainConfig asked = config(Recompute::cheap);
    asked.model.frozen_dtype = frozen;
    GetParam().set(asked);
    const EnginePlan plan = make_engine_plan(asked);
    const auto device = test::make_device(std::size_t{1} << 28);
    comm::ProcessGrid grid(test::world(), {}, *device);
    Engine engine(*device, grid, asked, plan, true);
    engine.load_initial_weights();
    double bytes = 0;
    const checkpoints::Snapshot saved = snapshot(engine, true);
    for (const checkpoints::LocalTensor& tensor : saved.tensors)
      for (const checkpoints::LocalPiece& piece : tensor.pieces)
        bytes += static_cast<double>(checkpoints::element_count(piece.box)) *
                 static_cast<double>(size_of(tensor.dtype));
    EXPECT_NEAR(footprint(asked, plan, 0).save, bytes, 0.02 * bytes) << to_string(frozen);
  }
}

// Controls read the residual stream, which is there anyway, where products beside linear layers
// keep inputs of their own.
TEST_F(Footprints, ControlKeepsAtMostFourFifthsOfLora) {
  TrainConfig control = config(Recompute::none), lora = control;
  adapter(Kind::parallel_control)(control);
  adapter(Kind::lora, {"q_proj", "k_proj", "v_proj", "up_proj", "down_proj"})(lora);
  EXPECT_LE(kept_bytes(control, make_engine_plan(control)),
            0.8 * kept_bytes(lora, make_engine_plan(lora)));
}

/// A student whose teacher has four times its layers, and a head larger than its blocks.
class LossesOnStates : public ::testing::Test {
 protected:
  LossesOnStates() {
    testing::write_model(folder_ / "student", kStudent, 7);
    testing::write_model(folder_ / "teacher",
                         {.layers = 8, .hidden = 48, .ffn = 64, .vocab = 4096, .positions = 48}, 9);
    config_.model.path = folder_ / "student";
    config_.teacher.path = folder_ / "teacher";
    config_.batch = {.micro_batch = 3, .micro_batches = 1};
    config_.loss.kd_weight = 1;
    config_.loss.chunk_rows = 16;
  }

  struct Measured {
    double gradients = 0;  ///< bytes
    double step = 0;       ///< the largest number of bytes of a step beside what is always there
  };
  static Measured measure(const TrainConfig& config) {
    const EnginePlan plan = make_engine_plan(config);
    const auto device = test::make_device(std::size_t{1} << 28);
    comm::ProcessGrid grid(test::world(), {}, *device);
    const auto no_spans = [](const std::vector<data::MicroBatch>& batches) {
      std::vector<std::vector<data::spans::TokenSpans>> spans;
      for (const data::MicroBatch& batch : batches)
        spans.emplace_back(static_cast<std::size_t>(batch.sequences()));
      return spans;
    };
    Engine engine(*device, grid, config, plan, true,
                  make_state_losses(*device, grid, config, plan, no_spans));
    engine.load_initial_weights();
    data::MicroBatch batch;
    const std::vector<std::int32_t> ids(kStudent.positions + 1, 5);
    for (int s = 0; s < config.batch.micro_batch; ++s) data::append(batch, {ids, 20}, s, s);
    const std::size_t before = device->memory().in_use;
    device->reset_peak();
    engine.forward_backward({batch}, data::RoleCounts(data::count(batch)), 0);
    Measured measured{.step = static_cast<double>(device->memory().peak - before)};
    for (const model::Parameter& parameter : engine.student().parameters().parameters())
      if (parameter.trainable())
        measured.gradients += static_cast<double>(parameter.grad().bytes());
    return measured;
  }

  static constexpr testing::SmallModel kStudent{
      .layers = 2, .hidden = 32, .ffn = 48, .vocab = 4096, .positions = 48};
  testing::TemporaryDirectory folder_;
  TrainConfig config_;
};

TEST_F(LossesOnStates, ProjectorsAreTrainedParameters) {
  TrainConfig mta = config_;
  mta.mta.enabled = true;
  mta.mta.student_layers = {0, 2};
  mta.spans.train = "spans.h5";
  const Footprint with = footprint(mta, make_engine_plan(mta), 0),
                  without = footprint(config_, make_engine_plan(config_), 0);
  const double projectors = measure(mta).gradients - measure(config_).gradients;
  EXPECT_EQ(projectors, 4 * 2 * 48 * (32 + 1));
  EXPECT_EQ(with.gradients - without.gradients, projectors);
  EXPECT_EQ(with.weights - without.weights, projectors);
  EXPECT_EQ(with.moments - without.moments, 2 * projectors);
  // On two stages each has one of them.
  mta.grid.pp = 2;
  config_.grid.pp = 2;
  for (int stage = 0; stage < 2; ++stage)
    EXPECT_EQ(footprint(mta, make_engine_plan(mta), stage).gradients -
                  footprint(config_, make_engine_plan(config_), stage).gradients,
              projectors / 2);
  mta.mta.hid_weight = 0;
  EXPECT_EQ(footprint(mta, make_engine_plan(mta), 0).gradients,
            footprint(config_, make_engine_plan(config_), 0).gradients);
}

// All key layers' logits of both models are there at once, and they are most of the step's memory.
TEST_F(LossesOnStates, LogitsOfTheDynamics) {
  TrainConfig fdd = config_;
  fdd.fdd.enabled = true;
  fdd.fdd.student_layers = {0, 1, 2};
  const Footprint with = footprint(fdd, make_engine_plan(fdd), 0),
                  without = footprint(config_, make_engine_plan(config_), 0);
  const double foretold = with.head - without.head;
  EXPECT_GT(foretold, 10 * without.activations);
  EXPECT_NEAR(measure(fdd).step - measure(config_).step, foretold, without.activations);
}

TEST(OperationCounts, TunedAndTrained) {
  EnginePlan plan{.student = {},
                  .teacher = std::nullopt,
                  .student_from_teacher = {},
                  .student_layers = pipeline::Partition({2}),
                  .teacher_layers = std::nullopt};
  plan.student = model::parse_config(
      testing::config_json({.layers = 2, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 112}), "");
  const double block = 64 * (2 * 64 + 2 * 32) + 3 * 64 * 112;
  EXPECT_EQ(block_multiply_adds(plan.student), block);
  const double head = 64 * 503, attention = 2 * 64 * 70;
  TrainConfig config;
  // 10 tokens in sequences whose lengths' squares add up to 70; 6 have labels.
  const auto flops = [&] { return step_flops(plan, config, 10, 6, 70); };
  EXPECT_EQ(flops(), 2 * (3 * 10 * 2 * block + 3 * attention + 3 * 6 * head));
  plan.adapter.kind = Kind::lora;
  plan.adapter.rank = 4;
  plan.adapter.targets = {"q_proj", "down_proj"};
  const double lora = 4 * (64 + 64) + 4 * (112 + 64);
  EXPECT_EQ(added_multiply_adds(plan, 0), lora);
  EXPECT_EQ(flops(), 2 * (2 * 10 * 2 * block + 3 * 10 * 2 * lora + 3 * attention + 2 * 6 * head));
  plan.adapter.kind = Kind::molex;
  const double gate = 64 * 2;
  EXPECT_EQ(added_multiply_adds(plan, 0), 2 * lora + gate + block);
  EXPECT_EQ(flops(), 2 * (2 * 2 * 10 * 2 * block + 3 * 10 * 2 * (2 * lora + gate) +
                          2 * 3 * attention + 2 * 6 * head));
  plan.adapter.kind = Kind::none;
  plan.moc = {.enabled = true, .rank = 4, .top_k = 1};
  EXPECT_EQ(added_multiply_adds(plan, 1), 2 * (2 * 2 * 4 * 64 + gate));
}

// What is trained, and what the optimizer keeps of it, is what an engine declares.
TEST_P(FootprintOf, TrainedParameters) {
  TrainConfig asked = config(Recompute::cheap);
  GetParam().set(asked);
  const EnginePlan plan = make_engine_plan(asked);
  const auto device = test::make_device(std::size_t{1} << 28);
  comm::ProcessGrid grid(test::world(), {}, *device);
  Engine engine(*device, grid, asked, plan, true);
  double all = 0, trained = 0;
  for (const model::Parameter& parameter : engine.student().parameters().parameters()) {
    const auto elements = static_cast<double>(parameter.shape.elements());
    all += elements;
    if (parameter.trainable()) trained += elements;
  }
  const Footprint foretold = footprint(asked, plan, 0);
  // Norms are few: those of a frozen layer, and the last one.
  const double norms = 4.0 * kModel.hidden * (2 * kModel.layers + 1);
  EXPECT_NEAR(foretold.gradients, 4 * trained, norms);
  EXPECT_NEAR(foretold.moments, 8 * trained, 2 * norms);
  EXPECT_NEAR(foretold.weights, 4 * all, norms);
}

TEST(FootprintOfVotes, IsOnTheLastStage) {
  testing::TemporaryDirectory folder;
  testing::write_model(folder.path(), kModel, 7);
  TrainConfig config;
  config.model.path = folder.path();
  config.model.freeze = {{"*"}};
  config.grid.pp = 4;  // three layers each
  config.grid.layers = {3, 3, 3, 3};
  config.mode = {.enabled = true, .spec = {.k = 5}, .lambda = 0};
  const EnginePlan plan = make_engine_plan(config);
  const double width = kModel.hidden, tokens = config.batch.micro_batch * 48.0;
  const double trained = 5 * width + 5 * (width + 1);
  for (int stage = 0; stage < 3; ++stage) {
    EXPECT_EQ(footprint(config, plan, stage).gradients, 0) << stage;
    EXPECT_EQ(footprint(config, plan, stage).activations, 0) << stage;
  }
  EXPECT_EQ(footprint(config, plan, 3).gradients, 4 * trained);
  TrainConfig alone = config;
  alone.mode = {};
  alone.model.freeze = {};
  EnginePlan without = plan;
  without.mode.reset();
  // Four more layers' states, and H_7 and H_8, which travel; H_9 is what the stage begins with.
  EXPECT_DOUBLE_EQ(footprint(config, plan, 3).head - footprint(alone, without, 3).head,
                   4 * tokens * width * (4 * 3 + 2 * 2));
  config.mode.lambda = 0.5;
  EXPECT_GT(footprint(config, plan, 3).head, footprint(alone, without, 3).head);
}

// The head runs as often as layers vote now, not as they did when the run began.
TEST(OperationCounts, AShrunkMixtureCostsLess) {
  testing::TemporaryDirectory folder;
  testing::write_model(folder.path(), kModel, 7);
  TrainConfig config;
  config.model.path = folder.path();
  config.mode = {.enabled = true, .spec = {.k = 4}, .lambda = 0.5};
  EnginePlan plan = make_engine_plan(config);
  const double four = step_flops(plan, config, 10, 6, 70);
  plan.mode->k = 2;
  const double head = static_cast<double>(kModel.vocab * kModel.hidden);
  EXPECT_DOUBLE_EQ(four - step_flops(plan, config, 10, 6, 70), 2 * 6 * 3 * 2 * head);
  plan.mode->k = 1;
  EXPECT_DOUBLE_EQ(four - step_flops(plan, config, 10, 6, 70), 2 * 6 * 3 * 3 * head);
}

INSTANTIATE_TEST_SUITE_P(Methods, FootprintOf, ::testing::ValuesIn(cases()),
                         [](const auto& method) { return method.param.name; });

}  // namespace
}  // namespace fathom::train
