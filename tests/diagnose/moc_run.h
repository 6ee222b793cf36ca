#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "core/log.h"
#include "tests/support/small_model.h"
#include "tests/support/test_device.h"
#include "train/trainer.h"

/// Runs of a model so small that its Jacobians can be written down whole.
namespace fathom::diagnose::moc::tiny {

inline const testing::SmallModel kModel = {
    .layers = 3, .hidden = 16, .heads = 2, .kv_heads = 1, .ffn = 24, .vocab = 67, .positions = 32};

/// Writes the model and its data, once.
inline void write_files(const std::filesystem::path& folder) {
  logger().set_quiet(true);
  testing::write_model(folder / "model", kModel, 7);
  testing::write_tokens(folder / "tokens.h5", 24, 6, 20, kModel.vocab, 3);
}

/// Five steps of whatever `change` asks for; returns the checkpoint.
inline std::filesystem::path train(const std::filesystem::path& folder, const std::string& name,
                                   const std::function<void(train::TrainConfig&)>& change) {
  train::TrainConfig config;
  config.model.path = folder / "model";
  config.data.train = folder / "tokens.h5";
  config.batch = {.micro_batch = 3, .micro_batches = 1};
  config.optim.lr = 5e-2;
  config.schedule.kind = train::ScheduleKind::constant;
  config.run.dir = folder / name;
  config.run.steps = 5;
  config.run.quiet = true;
  config.log.tensorboard = false;
  config.log.progress = train::ProgressMode::off;
  change(config);
  const auto device = test::make_test_device(std::size_t{1} << 28);
  const auto self = comm::self_communicator();
  comm::ProcessGrid grid(*self, {}, *device);
  train::Trainer(*device, grid, config, train::make_engine_plan(config), {}).run();
  return folder / name / "step_00000005";
}

}  // namespace fathom::diagnose::moc::tiny
