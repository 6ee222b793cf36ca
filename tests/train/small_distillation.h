#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/grid_shape.h"
#include "tests/support/shared_directory.h"
#include "tests/support/small_model.h"
#include "train/config.h"

/// A small student that learns from a small teacher, with dropout everywhere: what the tests of
/// layout and resume train.
namespace fathom::train::small {

inline constexpr std::int32_t kVocab = 503;

/// The teacher is deeper and wider than the student and has unlike heads; both tie their heads.
inline void write_models(const std::filesystem::path& folder) {
  testing::write_model(folder / "student", {}, 7);
  testing::write_model(folder / "teacher",
                       {.layers = 6, .hidden = 96, .heads = 8, .kv_heads = 4, .ffn = 152}, 11);
}

/// Four micro-batches of three sequences a step; cross-entropy and divergence in equal parts.
inline TrainConfig config(const std::filesystem::path& folder, const comm::GridShape& grid = {}) {
  TrainConfig config;
  config.model.path = folder / "student";
  config.teacher.path = folder / "teacher";
  config.batch = {.micro_batch = 3, .micro_batches = 4};
  config.grid.tp = grid.tp;
  config.grid.pp = grid.pp;
  config.grid.dp = grid.dp;
  config.loss = {
      .ce_weight = 0.5, .kd_weight = 0.5, .temperature = 2.0, .scale_t2 = true, .chunk_rows = 16};
  config.optim = {.lr = 3e-3, .weight_decay = 0.1, .clip = 1.0};
  config.dropout = {.embedding = 0.1, .residual = 0.1, .attention = 0.1};
  return config;
}

/// Every grid of this many ranks.
inline std::vector<comm::GridShape> grids(int ranks) {
  std::vector<comm::GridShape> all;
  for (int tp = 1; tp <= ranks; ++tp)
    for (int pp = 1; pp <= ranks / tp; ++pp)
      if (ranks % (tp * pp) == 0) all.push_back({.dp = ranks / tp / pp, .pp = pp, .tp = tp});
  return all;
}

/// Tests are listed before MPI starts; their main checks that this is the number of ranks.
inline int launched_ranks() {
  return std::atoi(std::getenv("FATHOM_TEST_RANKS"));
}

inline std::string name_of(const comm::GridShape& grid) {
  return "tp" + std::to_string(grid.tp) + "_pp" + std::to_string(grid.pp) + "_dp" +
         std::to_string(grid.dp);
}

}  // namespace fathom::train::small
