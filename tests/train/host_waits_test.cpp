// A step reads what it has to say of its losses in one piece: how often the host waits for its
// device does not grow with layers or micro-batches, and on no grid.

#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "tests/support/small_model.h"
#include "tests/support/temporary_directory.h"
#include "train/state_losses.h"

namespace fathom::train {
namespace {

/// The CPU's memory, of which every copy to the host counts as the wait that it is on a GPU.
class CountingDevice final : public Device {
 public:
  explicit CountingDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  void* allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  void free(void* memory) noexcept override { inner_->free(memory); }
  bool owns(const void* memory) const noexcept override { return inner_->owns(memory); }
  void copy_from_host(void* to, const void* from, std::size_t bytes) override {
    inner_->copy_from_host(to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, std::size_t bytes) override {
    ++waits_;
    inner_->copy_to_host(to, from, bytes);
  }
  void fill_zero(void* memory, std::size_t bytes) override { inner_->fill_zero(memory, bytes); }
  void open() noexcept override { inner_->open(); }
  void close() noexcept override { inner_->close(); }
  void synchronize() override { ++waits_; }
  std::int64_t host_waits() const override { return waits_; }
  MemoryStats memory() const override { return inner_->memory(); }
  void reset_peak() override { inner_->reset_peak(); }

 private:
  std::unique_ptr<Device> inner_;
  std::int64_t waits_ = 0;
};

std::unique_ptr<Device> make_counted_device() {
  auto device = test::make_device(std::size_t{1} << 28);
  if (kernels::backend().owns_memory) return device;
  return std::make_unique<CountingDevice>(std::move(device));
}

struct Case {
  std::string name;
  std::function<void(TrainConfig&)> set;
};

void distil(TrainConfig& config) {
  config.loss.kd_weight = 0.5;
}

std::vector<Case> cases() {
  return {{"fine_tuning", [](TrainConfig&) {}},
          {"distillation", distil},
          {"lora",
           [](TrainConfig& config) {
             config.adapter.spec.kind = methods::adapters::Kind::lora;
             config.adapter.spec.rank = 4;
           }},
          {"mta",
           [](TrainConfig& config) {
             distil(config);
             config.mta = {.enabled = true, .student_layers = {1, 2}, .teacher_layers = {1, 2}};
           }},
          {"fdd",
           [](TrainConfig& config) {
             distil(config);
             config.fdd = {.enabled = true, .student_layers = {1, 2}, .teacher_layers = {1, 2}};
           }},
          {"mode", [](TrainConfig& config) {
             config.mode.enabled = true;
             config.mode.spec.k = 2;
           }}};
}

// Those of as many ranks as there are.
std::vector<comm::GridShape> grids() {
  if (test::world().size() == 1) return {comm::GridShape{}};
  return {{.tp = 2}, {.pp = 2}, {.dp = 2}};
}

class HostWaits : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr int kVocab = 503;

  /// Of one step of a student (and a teacher) with so many layers on so many micro-batches of each
  /// replica: the most of any rank.
  std::int64_t of_step(const comm::GridShape& shape, int layers, int micro_batches) {
    const std::filesystem::path model = folder_ / std::to_string(layers);
    testing::write_model(model, {.layers = layers}, 7);
    TrainConfig config;
    config.model.path = model;
    config.batch = {.micro_batch = 2, .micro_batches = micro_batches * shape.dp};
    config.grid.dp = shape.dp;
    config.grid.pp = shape.pp;
    config.grid.tp = shape.tp;
    config.loss.chunk_rows = 16;
    GetParam().set(config);
    if (config.loss.kd_weight > 0) config.teacher.path = model;
    const auto device = make_counted_device();
    comm::ProcessGrid grid(test::world(), shape, *device);
    const EnginePlan plan = make_engine_plan(config);
    Engine engine(*device, grid, config, plan, true,
                  make_state_losses(*device, grid, config, plan, spans_of));
    engine.load_initial_weights();
    step(engine, micro_batches, 0);
    const std::int64_t before = device->host_waits();
    step(engine, micro_batches, 1);
    std::int64_t waits = device->host_waits() - before;
    grid.world().all_reduce(&waits, 1, comm::ReduceOp::max);
    return waits;
  }

 private:
  static void step(Engine& engine, int micro_batches, int index) {
    std::vector<data::MicroBatch> slots(static_cast<std::size_t>(micro_batches));
    data::BatchCounts counts;  // of all replicas, which have the same
    std::vector<std::int32_t> ids(24);
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      for (const int sequence : {0, 1}) {
        for (std::int32_t& id : ids) id = (id * 37 + 11 + sequence) % kVocab;
        data::append(slots[slot], {ids, 8}, sequence, sequence);
      }
      for (int replica = 0; replica < engine.grid().shape().dp; ++replica)
        counts += data::count(slots[slot]);
    }
    const model::LossSums sums =
        engine.forward_backward(std::move(slots), data::RoleCounts(counts), index);
    EXPECT_EQ(sums.tokens, counts.label_tokens);
    const double norm = engine.optimizer().gradient_norm(engine.grid());
    EXPECT_GT(norm, 0);
    engine.update(1e-3, clip_factor(norm, 1.0));
  }

  static std::vector<std::vector<data::spans::TokenSpans>> spans_of(
      const std::vector<data::MicroBatch>& batches) {
    data::spans::TokenSpans spans;
    spans.words = {{0, 2}, {2, 5}, {8, 9}, {12, 16}};
    spans.phrases = {{0, 5}, {8, 16}};
    spans.prompt_length = 8;
    std::vector<std::vector<data::spans::TokenSpans>> all;
    for (const data::MicroBatch& batch : batches)
      all.emplace_back(static_cast<std::size_t>(batch.sequences()), spans);
    return all;
  }

  testing::TemporaryDirectory folder_;
};

TEST_P(HostWaits, DoNotGrow) {
  for (const comm::GridShape& shape : grids()) {
    SCOPED_TRACE(to_string(shape));
    const std::int64_t few = of_step(shape, 2, 1);
    EXPECT_EQ(few, 2) << "the losses, and the gradients' norm";
    EXPECT_EQ(of_step(shape, 5, 1), few);
    EXPECT_EQ(of_step(shape, 2, 4), few);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, HostWaits, ::testing::ValuesIn(cases()),
                         [](const auto& method) { return method.param.name; });

}  // namespace
}  // namespace fathom::train
