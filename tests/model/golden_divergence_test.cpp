// The divergences against PyTorch's values and gradients, with the vocabulary whole and spread over
// tensor ranks.

#include <cmath>
#include <gtest/gtest.h>

#include "../mpi_main.h"
#include "checkpoints/safetensors.h"
#include "model/head.h"
#include "model/shard.h"
#include "tests/autograd/gradient_check.h"

namespace fathom::test {
namespace {

using autograd::GradSlot;
using autograd::Tape;
using autograd::Var;
using checkpoints::SafetensorsReader;
using kernels::Divergence;
using kernels::DivergenceForm;
using Floats = std::vector<float>;

const std::string kFolder = FATHOM_TEST_DATA "/golden/methods/kd/";

std::unique_ptr<Device> make_shared_device() {
  constexpr std::size_t kLimit = std::size_t{64} << 20;
  return test::make_device(kLimit);
}

/// The logits of both models at the supervised positions of a text.
struct Text {
  std::vector<std::size_t> positions = {};  ///< supervised ones among all
  std::int64_t student_vocab = 0, teacher_vocab = 0, vocab = 0;
  Floats student = {}, teacher = {};

  std::int64_t rows() const { return static_cast<std::int64_t>(positions.size()); }
};

Floats rows_of(const Floats& all, const std::vector<std::size_t>& rows, std::int64_t columns) {
  Floats chosen;
  for (const std::size_t row : rows) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row) * columns;
    chosen.insert(chosen.end(), begin, begin + columns);
  }
  return chosen;
}

Text read_text(const SafetensorsReader& file, const std::string& mask, const std::string& student,
               const std::string& teacher, std::int64_t vocab = 503) {
  Text text{.student_vocab = file.at(student).shape[2],
            .teacher_vocab = file.at(teacher).shape[2],
            .vocab = vocab};
  const auto supervised = file.read_i64(mask);
  for (std::size_t i = 0; i < supervised.size(); ++i)
    if (supervised[i] != 0) text.positions.push_back(i);
  text.student = rows_of(file.read_f32(student), text.positions, text.student_vocab);
  text.teacher = rows_of(file.read_f32(teacher), text.positions, text.teacher_vocab);
  return text;
}

class GoldenDivergence : public testing::Test {
 protected:
  struct Outcome {
    double mean;
    Floats gradient;  ///< of mean * factor, by the student's logits at the supervised positions
  };

  // Through the head: states that are the logits, times a head that is the identity, give exactly
  // them, and the gradient of the states is theirs.
  Outcome run(const Text& text, const DivergenceForm& form, float temperature, float factor = 1) {
    const model::Shard mine = shard(text.student_vocab, text.vocab),
                       theirs = shard(text.teacher_vocab, text.vocab);
    const Var head(identity(mine, text.student_vocab));
    const Var teacher_head(identity(theirs, text.teacher_vocab));
    const Var states(Tensor::from_host(*device_, {text.rows(), text.student_vocab}, text.student),
                     std::make_shared<GradSlot>());
    const Var teacher(Tensor::from_host(*device_, {text.rows(), text.teacher_vocab}, text.teacher));
    const model::HeadLoss options{.loss = {.ce_weight = 0,
                                           .kd_weight = factor / static_cast<float>(text.rows()),
                                           .temperature = temperature,
                                           .divergence = form},
                                  .first_vocab = mine.first_vocab,
                                  .vocab = std::min(mine.vocab, text.vocab - mine.first_vocab),
                                  .chunk_rows = 4};
    Tape tape;
    comm::Communicator* group = world().size() > 1 ? &world() : nullptr;
    const std::vector<std::int32_t> labels(text.positions.size(), 0);
    const model::LossSums sums =
        model::head_loss(&tape, group, options, {states, &head}, {teacher, &teacher_head},
                         Tensor::from_host(*device_, {text.rows()}, labels));
    tape.backward();
    EXPECT_NEAR(sums.objective, factor * sums.divergence / static_cast<double>(text.rows()),
                1e-6 * std::abs(sums.objective));
    return {sums.divergence / static_cast<double>(text.rows()), to_host(states.slot->grad())};
  }

  void expect_gradient(const Floats& ours, const Floats& all, const Text& text) {
    const Floats theirs = rows_of(all, text.positions, text.student_vocab);
    ASSERT_EQ(ours.size(), theirs.size());
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      difference += std::pow(static_cast<double>(ours[i]) - static_cast<double>(theirs[i]), 2);
      norm += std::pow(static_cast<double>(theirs[i]), 2);
    }
    EXPECT_LT(std::sqrt(difference / norm), kGradientTolerance);
  }

  // Both sides are f32: logarithms of sums of 503 terms, at logits of up to 70.
  static constexpr double kValueTolerance = 2e-6, kGradientTolerance = 1e-5;

 private:
  Tensor identity(const model::Shard& mine, std::int64_t width) {
    Floats values(static_cast<std::size_t>(mine.vocab * width), 0.0f);
    for (std::int64_t v = 0; v < mine.vocab; ++v)
      values[static_cast<std::size_t>(v * width + mine.first_vocab + v)] = 1;
    return Tensor::from_host(*device_, {mine.vocab, width}, values);
  }

  static model::Shard shard(std::int64_t vocab, std::int64_t counted) {
    model::ModelSpec spec;
    spec.heads = spec.kv_heads = spec.ffn = 6;
    spec.vocab = vocab;
    return make_shard(spec, world().rank(), world().size(), counted);
  }

  std::unique_ptr<Device> device_ = make_shared_device();
};

struct Case {
  std::string name;
  DivergenceForm form;
};

const std::vector<Case> kCases = {{"forward_kl", {.kind = Divergence::forward_kl}},
                                  {"reverse_kl", {.kind = Divergence::reverse_kl}},
                                  {"js", {.kind = Divergence::js}},
                                  {"gkd_0.9", {.kind = Divergence::js, .beta = 0.9f}},
                                  {"tvd", {.kind = Divergence::tvd}},
                                  {"skew_kl_0.1", {.kind = Divergence::skew_kl}},
                                  {"skew_reverse_kl_0.1", {.kind = Divergence::skew_reverse_kl}},
                                  {"skew_reverse_kl_0.1_detached",
                                   {.kind = Divergence::skew_reverse_kl, .detach_mixture = true}}};

TEST_F(GoldenDivergence, ValuesAndGradients) {
  const SafetensorsReader logits(kFolder + "logits.safetensors");
  const Text text = read_text(logits, "mask", "student_logits", "teacher_logits");
  for (const Case& c : kCases)
    for (const int temperature : {1, 2}) {
      const std::string name = c.name + "-t" + std::to_string(temperature);
      SCOPED_TRACE(name);
      const SafetensorsReader expected(kFolder + name + ".safetensors");
      const Outcome got = run(text, c.form, static_cast<float>(temperature));
      const auto mean = static_cast<double>(expected.read_f32("loss")[0]);
      EXPECT_NEAR(got.mean, mean, kValueTolerance * (1 + mean));
      expect_gradient(got.gradient, expected.read_f32("grad.student_logits"), text);
    }
}

TEST_F(GoldenDivergence, OfEachToken) {
  const SafetensorsReader logits(kFolder + "logits.safetensors");
  const Text all = read_text(logits, "mask", "student_logits", "teacher_logits");
  for (const Case& c : kCases) {
    const SafetensorsReader expected(kFolder + c.name + "-t1.safetensors");
    const Floats values = expected.read_f32("per_token");
    for (std::size_t i = 0; i < all.positions.size(); ++i) {
      Text one = all;
      one.positions = {all.positions[i]};
      one.student = rows_of(all.student, {i}, all.student_vocab);
      one.teacher = rows_of(all.teacher, {i}, all.teacher_vocab);
      const auto value = static_cast<double>(values[all.positions[i]]);
      EXPECT_NEAR(run(one, c.form, 1).mean, value, kValueTolerance * (1 + value))
          << c.name << ", position " << all.positions[i];
    }
  }
}

// Student and teacher are padded to 508 and 520 entries, of which 503 are real.
TEST_F(GoldenDivergence, PaddedVocabulariesAreCutBeforeTheSoftmax) {
  const SafetensorsReader file(kFolder + "forward_kl-padded.safetensors");
  const Text text = read_text(file, "mask", "student_logits", "teacher_logits");
  const Outcome got = run(text, {}, 1);
  const auto mean = static_cast<double>(file.read_f32("loss")[0]);
  EXPECT_NEAR(got.mean, mean, kValueTolerance * (1 + mean));
  expect_gradient(got.gradient, file.read_f32("grad.student_logits"), text);
  for (std::size_t row = 0; row < text.positions.size(); ++row)
    for (std::size_t id = 503; id < 508; ++id) ASSERT_EQ(got.gradient[row * 508 + id], 0) << id;
}

// (2 - b) SKL on the teacher's text + b SRKL with a detached mixture on the student's, b = 1.
TEST_F(GoldenDivergence, ContrastiveFormOfTwoTexts) {
  const SafetensorsReader file(kFolder + "distillm2.safetensors");
  const Text chosen = read_text(file, "mask_teacher_text", "student_logits_on_teacher_text",
                                "teacher_logits_on_teacher_text"),
             rejected = read_text(file, "mask_student_text", "student_logits_on_student_text",
                                  "teacher_logits_on_student_text");
  const Outcome skl = run(chosen, {.kind = Divergence::skew_kl}, 1),
                srkl =
                    run(rejected, {.kind = Divergence::skew_reverse_kl, .detach_mixture = true}, 1);
  EXPECT_NEAR(skl.mean, file.read_f32("skl")[0], kValueTolerance * 3);
  EXPECT_NEAR(srkl.mean, file.read_f32("srkl")[0], kValueTolerance * 3);
  EXPECT_NEAR(skl.mean + srkl.mean, file.read_f32("loss")[0], kValueTolerance * 5);
  expect_gradient(skl.gradient, file.read_f32("grad.student_logits_on_teacher_text"), chosen);
  expect_gradient(srkl.gradient, file.read_f32("grad.student_logits_on_student_text"), rejected);
}

}  // namespace
}  // namespace fathom::test
