// MTA's alignment of one pair of key layers against its definition in double.

#include <gtest/gtest.h>

#include "align_definition.h"
#include "kernels/token_importance.h"

namespace fathom::test {
namespace {

using autograd::GradSlot;
using autograd::Tape;
using autograd::Var;
using methods::mta::AlignOptions;
using methods::mta::AlignSums;
using methods::mta::LevelSpans;
using methods::mta::Projector;
using methods::mta::SpanList;
using Floats = std::vector<float>;

struct AlignValues {
  Doubles student, teacher, projector, bias;
};

AlignValues random_values(const AlignShape& s, std::uint32_t seed = 1) {
  return {sixty_fourths(s.rows() * s.student_width, seed),
          sixty_fourths(s.rows() * s.teacher_width, seed + 1),
          sixty_fourths(s.teacher_width * s.student_width, seed + 2),
          sixty_fourths(s.teacher_width, seed + 3)};
}

struct Outcome {
  AlignSums sums;
  Floats student, projector, bias;  // gradients
};

class Align : public testing::Test {
 protected:
  Tensor upload(const Doubles& values, std::int64_t rows, std::int64_t columns) {
    return Tensor::from_host(*device_, {rows, columns}, narrow(values));
  }

  LevelSpans level_spans(const AlignShape& s) {
    data::MicroBatch batch;
    batch.cu_seqlens = s.starts;
    SpanList list;
    for (std::size_t sample = 0; sample < s.spans.size(); ++sample) {
      batch.sample_index.push_back(static_cast<std::int64_t>(sample));
      list.add_sample(s.spans[sample]);
    }
    return LevelSpans(*device_, batch, list);
  }

  Outcome run(const AlignShape& s, const AlignOptions& options, const AlignValues& values) {
    const LevelSpans spans = level_spans(s);
    const Var student(
        upload(values.student, s.rows(), s.student_width),
        std::make_shared<GradSlot>(Tensor::zeros(*device_, {s.rows(), s.student_width})));
    const auto trained = [](const Tensor& value) {
      return Var(value, std::make_shared<GradSlot>(Tensor::zeros(value.device(), value.shape())));
    };
    const Projector projector{
        trained(upload(values.projector, s.teacher_width, s.student_width)),
        trained(Tensor::from_host(*device_, {s.teacher_width}, narrow(values.bias)))};
    Tape tape;
    Outcome outcome;
    outcome.sums = align(&tape, options, spans, student,
                         upload(values.teacher, s.rows(), s.teacher_width), projector);
    tape.backward();
    outcome.student = to_host(student.slot->grad());
    outcome.projector = to_host(projector.weight.slot->grad());
    outcome.bias = to_host(projector.bias.slot->grad());
    return outcome;
  }

  void expect_agrees(const AlignShape& s, const AlignOptions& options) {
    const AlignValues values = random_values(s);
    const Doubles student_weights = defined_weights(s, values.student, s.student_width);
    const Doubles teacher_weights = defined_weights(s, values.teacher, s.teacher_width);
    const auto dsa = [&](const Doubles& student) {
      return defined_dsa(s, options.normalise, student, values.teacher, student_weights,
                         teacher_weights);
    };
    const auto hid = [&](const Doubles& student, const Doubles& projector, const Doubles& bias) {
      return defined_hid(s, student, values.teacher, projector, bias, teacher_weights);
    };
    const Definition definition = [&](const std::vector<Doubles>& in) {
      return Doubles{options.dsa_weight * dsa(in[0]) +
                     options.hid_weight * hid(in[0], in[1], in[2])};
    };
    const Outcome got = run(s, options, values);
    const double expected_dsa = options.dsa_weight == 0 ? 0 : dsa(values.student);
    const double expected_hid =
        options.hid_weight == 0 ? 0 : hid(values.student, values.projector, values.bias);
    const std::int64_t longest = std::max({s.rows(), s.student_width, s.teacher_width});
    const double bound = tolerance({expected_dsa, expected_hid, 1.0}, longest);
    EXPECT_NEAR(got.sums.dsa, expected_dsa, bound);
    EXPECT_NEAR(got.sums.hid, expected_hid, bound);
    const std::vector<Doubles> inputs{values.student, values.projector, values.bias};
    expect_gradient(definition, inputs, 0, got.student, longest);
    expect_gradient(definition, inputs, 1, got.projector, longest);
    expect_gradient(definition, inputs, 2, got.bias, longest);
  }

  // Some elements one by one, and all of them along two directions.
  void expect_gradient(const Definition& definition, const std::vector<Doubles>& inputs,
                       std::size_t input, const Floats& gradient, std::int64_t longest) {
    ASSERT_EQ(gradient.size(), inputs[input].size());
    const double bound = tolerance(Doubles(gradient.begin(), gradient.end()), longest);
    const std::size_t step = std::max<std::size_t>(1, gradient.size() / 20);
    for (std::size_t i = 0; i < gradient.size(); i += step) {
      Doubles direction(gradient.size(), 0.0);
      direction[i] = 1;
      EXPECT_NEAR(gradient[i], difference_quotient(definition, inputs, {1.0}, input, direction),
                  bound)
          << "input " << input << ", element " << i;
    }
    for (const unsigned phase : {0u, 3u}) {
      Doubles direction(gradient.size());
      double along = 0;
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        direction[i] = (i + phase) * 2654435761u % 7 < 3 ? 1.0 : -1.0;
        along += direction[i] * gradient[i];
      }
      EXPECT_NEAR(along, difference_quotient(definition, inputs, {1.0}, input, direction),
                  bound * std::sqrt(static_cast<double>(gradient.size())))
          << "input " << input;
    }
  }

  std::unique_ptr<Device> device_ = make_test_device();
};

// Words that touch and words apart, overlapping spans, spans of one token, a sample of one token,
// one without spans, one with a single span, and the last row of a sample next to the first of
// another.
const AlignShape kMixed{5,
                        7,
                        {0, 9, 10, 14, 17, 30},
                        {{{0, 3}, {3, 4}, {6, 9}},
                         {{9, 10}},
                         {},
                         {{15, 17}},
                         {{17, 22}, {20, 25}, {20, 30}, {29, 30}}}};
const AlignShape kPair{3, 2, {0, 2}, {{{0, 1}, {1, 2}}}};
const AlignShape kNarrow{2, 2, {0, 5}, {{{0, 2}, {2, 3}, {3, 5}}}};
const AlignShape kWide{
    65, 33, {0, 40, 73}, {{{0, 1}, {1, 5}, {5, 6}, {8, 20}, {20, 40}}, {{41, 50}, {51, 73}}}};

TEST_F(Align, StructuralTerm) {
  for (const AlignShape& s : {kMixed, kPair, kWide})
    for (const auto normalise :
         {PairNormalisation::sample, PairNormalisation::none, PairNormalisation::batch}) {
      SCOPED_TRACE(std::to_string(s.rows()) + " rows, " + std::to_string(int(normalise)));
      expect_agrees(s, {.normalise = normalise, .dsa_weight = 0.75f});
    }
}

TEST_F(Align, HiddenTerm) {
  for (const AlignShape& s : {kMixed, kPair, kNarrow, kWide}) {
    SCOPED_TRACE(std::to_string(s.rows()) + " rows");
    expect_agrees(s, {.hid_weight = 1.25f});
  }
}

TEST_F(Align, BothTerms) {
  for (const AlignShape& s : {kMixed, kWide})
    expect_agrees(s, {.dsa_weight = 2.0f, .hid_weight = 0.5f});
}

TEST_F(Align, CountsTheSamplesThatContribute) {
  const AlignValues values = random_values(kMixed);
  const AlignSums both = run(kMixed, {.dsa_weight = 1, .hid_weight = 1}, values).sums;
  EXPECT_EQ(both.dsa_samples, 2);
  EXPECT_EQ(both.hid_samples, 4);
  const AlignSums hidden = run(kMixed, {.hid_weight = 1}, values).sums;
  EXPECT_EQ(hidden.dsa_samples, 0);
  EXPECT_EQ(hidden.dsa, 0);
  EXPECT_EQ(hidden.hid, both.hid);
}

TEST_F(Align, RowsOutsideSpansGetNoGradient) {
  const Outcome got = run(kMixed, {.dsa_weight = 1, .hid_weight = 1}, random_values(kMixed));
  for (const std::int64_t row : {4, 5, 10, 13, 14})
    for (std::int64_t c = 0; c < 5; ++c) EXPECT_EQ(got.student[row * 5 + c], 0) << row;
  for (const std::int64_t row : {0, 3, 9, 15, 29}) {
    double size = 0;
    for (std::int64_t c = 0; c < 5; ++c) size += std::abs(got.student[row * 5 + c]);
    EXPECT_GT(size, 0) << row;
  }
}

TEST_F(Align, WithoutSpansNothingHappens) {
  const AlignShape s{4, 4, {0, 3, 5}, {{}, {}}};
  const Outcome got = run(s, {.dsa_weight = 1, .hid_weight = 1}, random_values(s));
  EXPECT_EQ(got.sums.dsa + got.sums.hid, 0);
  EXPECT_EQ(got.sums.hid_samples, 0);
  EXPECT_EQ(got.student, Floats(got.student.size(), 0.0f));
  const AlignShape empty{4, 4, {0}, {}};
  EXPECT_EQ(align(nullptr, {.dsa_weight = 1, .hid_weight = 1}, level_spans(empty),
                  Var(Tensor::empty(*device_, {0, 4})), Tensor::empty(*device_, {0, 4}), {})
                .hid_samples,
            0);
}

// A student with the teacher's states has the teacher's structure.
TEST_F(Align, StructureOfTheTeacherItselfIsExactlyZero) {
  AlignShape s = kWide;
  s.student_width = s.teacher_width;
  AlignValues values = random_values(s);
  values.student = values.teacher;
  const Outcome got = run(s, {.dsa_weight = 1}, values);
  EXPECT_EQ(got.sums.dsa, 0);
  EXPECT_EQ(got.student, Floats(got.student.size(), 0.0f));
}

TEST_F(Align, WithoutATapeOrATrainedStudentNothingIsRecorded) {
  const AlignValues values = random_values(kWide);
  const LevelSpans spans = level_spans(kWide);
  const Tensor teacher = upload(values.teacher, kWide.rows(), kWide.teacher_width);
  const Projector projector{Var(upload(values.projector, 33, 65)),
                            Var(Tensor::from_host(*device_, {33}, narrow(values.bias)))};
  const AlignOptions options{.dsa_weight = 1, .hid_weight = 1};
  const Var frozen(upload(values.student, kWide.rows(), kWide.student_width));
  const Var trained(frozen.value, std::make_shared<GradSlot>());
  Tape tape;
  const AlignSums alone = align(nullptr, options, spans, trained, teacher, projector);
  const AlignSums taped = align(&tape, options, spans, frozen, teacher, projector);
  EXPECT_TRUE(tape.empty());
  EXPECT_FALSE(trained.slot->grad().defined());
  const Outcome got = run(kWide, options, values);
  EXPECT_EQ(alone.dsa, got.sums.dsa);
  EXPECT_EQ(taped.hid, got.sums.hid);
}

// The tape keeps the student's gradient and nothing else; one sample's workspace is all there is.
TEST_F(Align, KeepsTheGradientOfTheStudentOnly) {
  AlignShape s{64, 64, {0}, {}};
  for (std::int32_t sample = 0; sample < 16; ++sample) {
    const std::int32_t first = s.starts.back();
    s.spans.push_back({{first, first + 8}, {first + 8, first + 32}});
    s.starts.push_back(first + 32);
  }
  const AlignValues values = random_values(s);
  const LevelSpans spans = level_spans(s);
  const Tensor teacher = upload(values.teacher, s.rows(), 64);
  const Var student(upload(values.student, s.rows(), 64), std::make_shared<GradSlot>());
  const Projector projector{Var(upload(values.projector, 64, 64)),
                            Var(Tensor::from_host(*device_, {64}, narrow(values.bias)))};
  const std::size_t before = device_->memory().in_use, states = s.rows() * 64 * sizeof(float);
  device_->reset_peak();
  Tape tape;
  align(&tape, {.dsa_weight = 1, .hid_weight = 1}, spans, student, teacher, projector);
  EXPECT_EQ(device_->memory().in_use - before, states);
  EXPECT_LT(device_->memory().peak - before, states + states / 4);
  EXPECT_EQ(tape.saved_bytes().at("mta"), states);
  tape.backward();
  EXPECT_EQ(device_->memory().in_use - before, states);
}

// --- what else is in the micro-batch ---

// The samples of `s`, in this order.
AlignShape choose(const AlignShape& s, const AlignValues& values, const std::vector<int>& order,
                  AlignValues& chosen) {
  AlignShape out{s.student_width, s.teacher_width, {0}, {}};
  chosen = {{}, {}, values.projector, values.bias};
  for (const int sample : order) {
    const std::int32_t first = s.starts[sample], end = s.starts[sample + 1];
    const std::int32_t shift = out.starts.back() - first;
    std::vector<RowSpan> spans;
    for (const RowSpan span : s.spans[sample])
      spans.push_back({span.begin + shift, span.end + shift});
    out.spans.push_back(spans);
    out.starts.push_back(end + shift);
    const auto append = [&](const Doubles& from, std::int64_t width, Doubles& to) {
      to.insert(to.end(), from.begin() + first * width, from.begin() + end * width);
    };
    append(values.student, s.student_width, chosen.student);
    append(values.teacher, s.teacher_width, chosen.teacher);
  }
  return out;
}

TEST_F(Align, ASampleDoesNotSeeItsBatchMates) {
  const AlignOptions options{.dsa_weight = 1, .hid_weight = 0.5f};
  for (const AlignShape& s : {kMixed, kWide}) {
    const AlignValues values = random_values(s);
    std::vector<int> order(s.spans.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    const Outcome together = run(s, options, values);
    std::reverse(order.begin(), order.end());
    double dsa = 0, hid = 0;
    Floats reversed_gradient;
    for (const int sample : order) {
      AlignValues one;
      const AlignShape alone = choose(s, values, {sample}, one);
      const Outcome got = run(alone, options, one);
      const auto begin = together.student.begin() + s.starts[sample] * s.student_width;
      EXPECT_EQ(got.student, Floats(begin, begin + alone.rows() * s.student_width)) << sample;
      reversed_gradient.insert(reversed_gradient.end(), got.student.begin(), got.student.end());
      dsa += got.sums.dsa;
      hid += got.sums.hid;
    }
    AlignValues all;
    const AlignShape reversed = choose(s, values, order, all);
    const Outcome backwards = run(reversed, options, all);
    EXPECT_EQ(backwards.student, reversed_gradient);
    EXPECT_DOUBLE_EQ(together.sums.dsa, dsa);
    EXPECT_DOUBLE_EQ(together.sums.hid, hid);
    EXPECT_DOUBLE_EQ(backwards.sums.dsa, dsa);
  }
}

// --- numbers computed elsewhere, in double ---

TEST_F(Align, ImportanceOfThreeTokens) {
  const Tensor states = upload({1, 2, 0, -1, 1, 1, 1, 2, 2, -1, 1, 0}, 3, 4);
  const Tensor importance = Tensor::empty(*device_, {3});
  kernels::token_importance(states, importance);
  const Floats got = to_host(importance);
  EXPECT_NEAR(got[0], 0.163566, 1e-6);
  EXPECT_NEAR(got[1], 0.5031, 1e-6);
  EXPECT_NEAR(got[2], 0.333333, 1e-6);
}

TEST_F(Align, StructureOfThreeTokens) {
  const AlignShape s{2, 4, {0, 3}, {{{0, 1}, {1, 2}, {2, 3}}}};
  const AlignValues values{
      {1, 0, 1, 2, 1, 1}, {1, 2, 0, -1, 1, 1, 1, 2, 2, -1, 1, 0}, Doubles(8, 0.0), Doubles(4, 0.0)};
  // The student's third token has equal columns, and so no deviation: it has all the importance.
  EXPECT_NEAR(run(s, {.dsa_weight = 1}, values).sums.dsa, 0.338336, 1e-6);
}

// Scores of 1,100 queries take two blocks.
TEST_F(Align, ImportanceOfALongSequence) {
  const std::int64_t length = 1100, width = 6;
  const Doubles values = sixty_fourths(length * width, 5);
  const Tensor importance = Tensor::empty(*device_, {length});
  kernels::token_importance(upload(values, length, width), importance);
  const Doubles expected = defined_importance(values.data(), length, width);
  expect_close(to_host(importance), expected, tolerance(expected, length), "importance");
}

// One token that all others look at, far beyond where exp underflows.
TEST_F(Align, ExtremeStatesStayFinite) {
  const AlignShape s{16, 16, {0, 6}, {{{0, 2}, {2, 4}, {4, 6}}}};
  AlignValues values = random_values(s);
  for (std::int64_t t = 0; t < 6; ++t) {
    values.teacher[t * 16] = t == 5 ? 1e4 : -1e4;
    values.student[t * 16 + 1] = t % 2 ? 1e6 : -1e6;
  }
  std::fill(values.student.begin(), values.student.begin() + 16, 0.0);
  const Outcome got = run(s, {.dsa_weight = 1, .hid_weight = 1}, values);
  EXPECT_TRUE(std::isfinite(got.sums.dsa) && std::isfinite(got.sums.hid));
  for (const Floats& gradient : {got.student, got.projector, got.bias})
    for (const float g : gradient) ASSERT_TRUE(std::isfinite(g));
}

}  // namespace
}  // namespace fathom::test
