// The token losses of single rows, against numbers worked out by hand or in double precision.

#include "kernels/loss.h"

#include <cmath>
#include <gtest/gtest.h>

#include "core/device.h"
#include "tests/support/test_device.h"

namespace fathom::kernels {
namespace {

using Floats = std::vector<float>;

struct Outcome {
  double divergence;
  Floats gradient;
};

// One row with the label 0, of which only the divergence counts.
Outcome divergence_of(const DivergenceForm& form, const Floats& teacher, const Floats& student,
                      float temperature = 1) {
  const auto device = test::make_test_device(std::size_t{1} << 20);
  const auto row = [&](const Floats& values) {
    return Tensor::from_host(*device, {1, static_cast<std::int64_t>(values.size())}, values);
  };
  LogitChunk chunk;
  chunk.student = row(student);
  chunk.teacher = row(teacher);
  chunk.labels = Tensor::from_host(*device, {1}, std::vector<std::int32_t>{0});
  const Tensor results = Tensor::empty(*device, {1, kLossResults});
  loss_whole({.ce_weight = 0, .kd_weight = 1, .temperature = temperature, .divergence = form},
             chunk, results, true);
  return {to_host(results)[kDivergence], to_host(chunk.student)};
}

void expect_gradient(const Outcome& got, const Floats& expected, float bound) {
  ASSERT_EQ(got.gradient.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(got.gradient[i], expected[i], bound) << i;
}

std::vector<DivergenceForm> all_forms() {
  return {{.kind = Divergence::forward_kl},
          {.kind = Divergence::reverse_kl},
          {.kind = Divergence::js},
          {.kind = Divergence::js, .beta = 0.1f},
          {.kind = Divergence::tvd},
          {.kind = Divergence::skew_kl},
          {.kind = Divergence::skew_reverse_kl},
          {.kind = Divergence::skew_reverse_kl, .detach_mixture = true}};
}

// Of three entries, in double precision; bounds are three roundings of numbers near 1.
TEST(Divergence, OfThreeEntries) {
  const Floats teacher{2, 0, -1}, student{0, 1, 0};
  const auto value = [&](const DivergenceForm& form) {
    return divergence_of(form, teacher, student).divergence;
  };
  EXPECT_NEAR(value({.kind = Divergence::forward_kl}), 0.9129829, 2e-7);
  EXPECT_NEAR(value({.kind = Divergence::reverse_kl}), 0.9825766, 2e-7);
  EXPECT_NEAR(value({.kind = Divergence::skew_kl, .alpha = 0.1f}), 0.7058734, 2e-7);
  EXPECT_NEAR(value({.kind = Divergence::skew_reverse_kl, .alpha = 0.1f}), 0.7313831, 2e-7);
  EXPECT_NEAR(value({.kind = Divergence::tvd}), 0.6318532, 2e-7);
  EXPECT_NEAR(value({.kind = Divergence::js, .beta = 0.1f}), 0.0800934, 2e-7);
  EXPECT_NEAR(value({.kind = Divergence::js, .beta = 0.5f}), 0.2166725, 2e-7);
  EXPECT_EQ(value({.kind = Divergence::js, .beta = 0}), value({.kind = Divergence::forward_kl}));
  EXPECT_EQ(value({.kind = Divergence::js, .beta = 1}), value({.kind = Divergence::reverse_kl}));
  expect_gradient(divergence_of({.kind = Divergence::skew_kl}, teacher, student),
                  {-0.4286282f, 0.3133523f, 0.1152759f}, 2e-7f);
  expect_gradient(divergence_of({.kind = Divergence::skew_reverse_kl}, teacher, student),
                  {-0.3758721f, 0.2747845f, 0.1010876f}, 2e-7f);
}

// Where both models give an entry no probability that f32 could hold, it counts for nothing.
TEST(Divergence, IsZeroWhereBothUnderflow) {
  for (const DivergenceForm& form : all_forms()) {
    const Outcome got = divergence_of(form, {0, -200}, {0, -200});
    EXPECT_EQ(got.divergence, 0) << to_string(form.kind);
    EXPECT_EQ(got.gradient, (Floats{0, 0})) << to_string(form.kind);
    // Unequal logits whose probabilities are both too small.
    const Outcome far = divergence_of(form, {0, -150}, {0, -200});
    EXPECT_EQ(far.divergence, 0) << to_string(form.kind);
    EXPECT_EQ(far.gradient, (Floats{0, 0})) << to_string(form.kind);
  }
}

// At T = 0.05 the student is certain of one entry and the teacher undecided.
TEST(Divergence, StaysFiniteAtLowTemperatures) {
  for (const DivergenceForm& form : all_forms()) {
    const Outcome got = divergence_of(form, {0, 0}, {0, 10}, 0.05f);
    EXPECT_TRUE(std::isfinite(got.divergence)) << to_string(form.kind);
    for (const float g : got.gradient) EXPECT_TRUE(std::isfinite(g)) << to_string(form.kind);
  }
  // 1/2 log((1/2) / e^-200) + 1/2 log((1/2) / 1), and dD/dz = (q - p) / T.
  const Outcome forward = divergence_of({}, {0, 0}, {0, 10}, 0.05f);
  EXPECT_NEAR(forward.divergence, 100 - std::log(2.0), 2e-5);
  expect_gradient(forward, {-10, 10}, 1e-5f);
  EXPECT_NEAR(divergence_of({.kind = Divergence::reverse_kl}, {0, 0}, {0, 10}, 0.05f).divergence,
              std::log(2.0), 1e-6);
}

// Models that are certain of different entries: the bounded divergences reach their bounds.
TEST(Divergence, OfDisjointModelsIsItsBound) {
  const Floats teacher{0, -200, -200}, student{-200, 0, -200};
  const auto value = [&](const DivergenceForm& form) {
    return divergence_of(form, teacher, student).divergence;
  };
  EXPECT_NEAR(value({.kind = Divergence::forward_kl}), 200, 2e-5);
  EXPECT_NEAR(value({.kind = Divergence::reverse_kl}), 200, 2e-5);
  EXPECT_NEAR(value({.kind = Divergence::js}), std::log(2.0), 1e-6);
  EXPECT_NEAR(value({.kind = Divergence::tvd}), 1, 1e-6);
  EXPECT_NEAR(value({.kind = Divergence::skew_kl, .alpha = 0.1f}), std::log(10.0), 1e-6);
  EXPECT_NEAR(value({.kind = Divergence::skew_reverse_kl, .alpha = 0.1f}), std::log(10.0), 1e-6);
}

TEST(Divergence, RefusesParametersOutOfRange) {
  EXPECT_THROW(divergence_of({.kind = Divergence::skew_kl, .alpha = 0}, {0, 1}, {0, 1}), Error);
  EXPECT_THROW(divergence_of({.kind = Divergence::skew_kl, .alpha = 1}, {0, 1}, {0, 1}), Error);
  EXPECT_THROW(divergence_of({.kind = Divergence::js, .beta = 1.5f}, {0, 1}, {0, 1}), Error);
}

}  // namespace
}  // namespace fathom::kernels
