// DistiLLM-2's loss with its curriculum, as tests/references/curriculum.py computes it in numpy.

#include "train/row_alpha.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "comm/communicator.h"
#include "core/error.h"
#include "tests/support/test_device.h"
#include "train/run_state.h"
#include "train/token_loss.h"

namespace fathom::train {
namespace {

using data::Role;
using nlohmann::json;

data::MicroBatch batch_of(const json& side, Role role) {
  data::MicroBatch batch;
  batch.role = role;
  std::size_t label = 0;
  for (const std::int64_t length : side.at("lengths")) {
    std::vector<std::int32_t> ids{0};
    for (std::int64_t i = 0; i < length; ++i) ids.push_back(side.at("labels").at(label++));
    data::append(batch, {.ids = ids, .prompt_length = 1}, batch.sequences(), 0);
  }
  return batch;
}

class Curriculum : public ::testing::Test {
 protected:
  Curriculum()
      : device_(test::make_test_device(std::size_t{1} << 24)), self_(comm::self_communicator()) {
    std::ifstream(std::string(FATHOM_TEST_DATA) + "/curriculum/expected.json") >> expected_;
    vocab_ = expected_.at("vocab");
    loss_.kd_weight = 1;
    loss_.ce_weight = 0;
    loss_.alpha = expected_.at("alpha");
    loss_.rejected_weight = expected_.at("rejected_weight");
  }

  // A head that hands states on as logits.
  autograd::Var identity() {
    std::vector<float> values(static_cast<std::size_t>(vocab_ * vocab_), 0.0f);
    for (std::int64_t i = 0; i < vocab_; ++i)
      values[static_cast<std::size_t>(i * vocab_ + i)] = 1.0f;
    return autograd::Var(
        Tensor::from_host(*device_, {vocab_, vocab_}, std::span<const float>(values)));
  }
  Tensor rows(const json& values) {
    const auto flat = values.get<std::vector<float>>();
    return Tensor::from_host(*device_, {std::ssize(flat) / vocab_, vocab_},
                             std::span<const float>(flat));
  }

  // The loss of one side as the last stage computes it; checks it and its gradient.
  void check(const json& side, Role role, const data::RoleCounts& counts, RowAlpha& alpha) {
    SCOPED_TRACE(role == Role::chosen ? "chosen" : "rejected");
    const data::MicroBatch batch = batch_of(side, role);
    const autograd::Var head = identity();
    autograd::Var student(rows(side.at("student")));
    student.slot = std::make_shared<autograd::GradSlot>();
    const model::HeadInput teacher{autograd::Var(rows(side.at("teacher"))), &head};
    const Tensor labels = Tensor::from_host(*device_, {batch.label_tokens},
                                            std::span<const std::int32_t>(batch.labels));
    model::HeadLoss options{.loss = token_loss(loss_, counts, role),
                            .vocab = vocab_,
                            .chunk_rows = 3,
                            .row_weights = row_weights(*device_, loss_, batch)};
    model::LabelLogProbs seen;
    model::head_loss(nullptr, nullptr, options, {student, &head}, teacher, labels, &seen);
    options.row_alpha = alpha.of_rows(*device_, batch, seen);
    const std::vector<float> alphas = to_host(options.row_alpha);
    std::size_t row = 0;
    for (std::size_t a = 0; a < side.at("lengths").size(); ++a)
      for (std::int64_t i = 0; i < side.at("lengths").at(a); ++i, ++row)
        // (1 - alpha0) reference / gap magnifies the roundings of both some ten times.
        EXPECT_NEAR(alphas.at(row), side.at("alphas").at(a).get<double>(), 5e-6) << row;
    EXPECT_EQ(row, alphas.size());
    autograd::Tape tape;
    const auto sums = model::head_loss(&tape, nullptr, options, {student, &head}, teacher, labels);
    const double objective = side.at("objective");
    EXPECT_NEAR(sums.objective, objective, 1e-5 * objective);
    tape.backward();
    const std::vector<float> gradient = to_host(student.slot->take());
    ASSERT_EQ(gradient.size(), side.at("gradient").size());
    for (std::size_t i = 0; i < gradient.size(); ++i)
      EXPECT_NEAR(gradient[i], side.at("gradient").at(i).get<double>(), 2e-6) << i;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<comm::Communicator> self_;
  json expected_;
  std::int64_t vocab_ = 0;
  LossConfig loss_;
};

TEST_F(Curriculum, TwoStepsEqualTheReference) {
  RowAlpha alpha(loss_.alpha);
  for (const json& step : expected_.at("steps")) {
    data::RoleCounts counts;
    for (const auto& [role, name] :
         {std::pair{Role::chosen, "chosen"}, {Role::rejected, "rejected"}})
      counts[role] = data::count(batch_of(step.at(name), role));
    alpha.begin(counts);
    check(step.at("chosen"), Role::chosen, counts, alpha);
    check(step.at("rejected"), Role::rejected, counts, alpha);
    alpha.finish(*self_, *self_);
    const auto terms = alpha.terms();
    ASSERT_EQ(terms.size(), 4u);
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const json& side = step.at(i < 2 ? "chosen" : "rejected");
      double sum = 0;
      for (const double value : side.at(i % 2 == 0 ? "alphas" : "gaps")) sum += value;
      EXPECT_NEAR(terms[i].sum, sum, 1e-5) << terms[i].name;
      EXPECT_EQ(terms[i].count, 3);
      EXPECT_EQ(terms[i].weight, 0);
    }
  }
}

TEST(RunState, KeepsTheReferenceOfTheCurriculumToTheLastBit) {
  RunState state;
  EXPECT_FALSE(parse_run_state(to_json(state), "here").gaps.has_value());
  state.gaps = {0.1 / 3, -1e-17};
  EXPECT_EQ(parse_run_state(to_json(state), "here").gaps, state.gaps);
}

// One step more from a saved reference is the step that a run without a stop would make.
TEST(RowAlphaState, GoesOnFromARestoredReference) {
  const auto device = test::make_test_device(std::size_t{1} << 20);
  const auto self = comm::self_communicator();
  data::MicroBatch batch;
  batch.role = Role::chosen;
  const std::vector<std::int32_t> ids{0, 1, 2};
  data::append(batch, {.ids = ids, .prompt_length = 1}, 0, 0);
  data::RoleCounts counts;
  counts[Role::chosen] = data::count(batch);
  const model::LabelLogProbs far{{-3.0f, -3.0f}, {-0.5f, -0.5f}},
      near{{-0.7f, -0.7f}, {-0.5f, -0.5f}};
  RowAlpha whole(0.1);
  whole.begin(counts);
  EXPECT_EQ(to_host(whole.of_rows(*device, batch, far)), (std::vector{0.1f, 0.1f}));
  whole.finish(*self, *self);
  RowAlpha resumed(0.1);
  resumed.restore(whole.reference().value());
  for (RowAlpha* each : {&whole, &resumed}) {
    each->begin(counts);
    EXPECT_EQ(to_host(each->of_rows(*device, batch, near)), (std::vector{0.01f, 0.01f}));
    each->finish(*self, *self);
    EXPECT_EQ(each->reference(), whole.reference());
  }
}

}  // namespace
}  // namespace fathom::train
