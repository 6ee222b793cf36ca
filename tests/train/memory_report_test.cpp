// What `fathom train --memory` says, against what the step kept and what the model is.

#include "train/memory_report.h"

#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <numeric>
#include <sstream>

#include "../mpi_main.h"
#include "tests/train/small_distillation.h"

namespace fathom::train {
namespace {

std::vector<std::vector<std::string>> words_of(const std::string& text) {
  std::vector<std::vector<std::string>> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    lines.emplace_back(std::istream_iterator<std::string>(words),
                       std::istream_iterator<std::string>());
  }
  return lines;
}

/// The report's tables by the first word of each row.
struct Report {
  explicit Report(const std::string& text) {
    std::map<std::string, std::vector<std::string>>* table = nullptr;
    for (std::vector<std::string>& words : words_of(text)) {
      if (words.empty()) continue;
      if (words.size() > 2 && words[1] == "of") {
        last = text.substr(text.rfind('\n', text.size() - 2) + 1);
      } else if (words.front() == "operation") {
        table = &operations;
      } else if (words.front() == "parameter") {
        table = &parameters;
      } else if (table != nullptr && words.back().back() != ':') {
        (*table)[words.front()] = {words.begin() + 1, words.end()};
      }
    }
  }
  std::map<std::string, std::vector<std::string>> operations, parameters;
  std::string last;
};

TEST(MemoryReport, AddsUpAndNamesEveryParameterWithItsOwner) {
  const testing::SharedDirectory files(test::world(), small::write_models);
  TrainConfig config = small::config(files.path(), {.dp = 1, .pp = 2, .tp = 1});
  config.grid.layers = {3, 1};
  config.adapter.spec.kind = methods::adapters::Kind::lora;
  config.adapter.spec.rank = 4;
  const auto device = test::make_device(std::size_t{1} << 28);
  comm::ProcessGrid grid(test::world(), {.dp = 1, .pp = 2, .tp = 1}, *device);
  const EnginePlan plan = make_engine_plan(config);
  Engine engine(*device, grid, config, plan, true);
  engine.load_initial_weights();
  data::MicroBatch batch;
  std::vector<std::int32_t> ids(20);
  std::iota(ids.begin(), ids.end(), 7);
  data::append(batch, {ids, 5}, 0, 0);
  engine.forward_backward({batch}, data::RoleCounts(data::count(batch)), 0);

  std::int64_t kept[2] = {};
  for (const auto& [operation, bytes] : engine.work().saved_bytes())
    kept[grid.place().pp] += static_cast<std::int64_t>(bytes);
  test::world().all_reduce(kept, 2, comm::ReduceOp::sum);
  const std::string text = memory_report(engine);
  test::world().barrier();  // the files go with rank 0
  if (test::world().rank() != 0) {
    EXPECT_EQ(text, "");
    return;
  }

  Report report(text);
  const std::vector<std::string> total = report.operations.at("total");
  EXPECT_EQ(total, (std::vector{std::to_string(kept[0]), std::to_string(kept[1])})) << text;
  report.operations.erase("total");
  std::int64_t sums[2] = {};
  for (const auto& [operation, columns] : report.operations) {
    ASSERT_EQ(columns.size(), 2u) << operation << ": a column for each rank";
    for (std::size_t rank : {0u, 1u}) sums[rank] += std::stoll(columns[rank]);
  }
  EXPECT_EQ(sums[0], kept[0]);
  EXPECT_EQ(sums[1], kept[1]);

  const model::ModelSpec& spec = plan.student;
  const std::int64_t q = spec.heads * spec.head_dim, kv = spec.kv_heads * spec.head_dim;
  const std::int64_t trained = spec.layers * 4 * ((spec.hidden + q) + (spec.hidden + kv));
  // The tied embedding counts once, on the first stage.
  const auto row = [&](const std::string& name, const std::string& shape, const char* is_trained,
                       const char* stage) {
    ASSERT_TRUE(report.parameters.contains(name)) << name << "\n" << text;
    EXPECT_EQ(report.parameters.at(name), (std::vector<std::string>{shape, is_trained, stage, "0"}))
        << name;
  };
  row("model.embed_tokens.weight", "503x64", "no", "0");
  row("model.layers.2.mlp.down_proj.weight", "64x112", "no", "0");
  row("model.norm.weight", "64", "no", "1");
  row("method.adapter.model.layers.0.self_attn.q_proj.lora_A.weight", "4x64", "yes", "0");
  row("method.adapter.model.layers.3.self_attn.v_proj.lora_B.weight", "32x4", "yes", "1");
  EXPECT_EQ(report.parameters.size(), 2u + 4 * 9 + 4 * 4);
  EXPECT_TRUE(report.last.starts_with(
      str(trained, " of ", spec.parameters() + trained, " parameters are trained, ")))
      << report.last;
}

}  // namespace
}  // namespace fathom::train
