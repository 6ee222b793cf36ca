// Gradients of the mixture's token loss with distillation, against finite differences of the
// definition: through experts, weights and head, in chunks of which the last is smaller.

#include "methods/mode/vote_loss.h"

#include <cmath>
#include <gtest/gtest.h>

#include "../autograd/gradient_check.h"

namespace fathom::methods::mode {
namespace {

using autograd::Var;
using test::Doubles;

constexpr std::int64_t kRows = 11, kWidth = 6, kVocab = 19, kChunk = 8;
constexpr double kCrossEntropy = 0.5, kDistill = 0.25, kTemperature = 2;
const std::vector<std::int32_t> kLabels{0, 18, 3, 4, 4, 9, 11, 2, 7, 16, 5};

// k experts, weights and head, in this order.
std::vector<Doubles> random_inputs(int k) {
  std::vector<Doubles> inputs;
  for (int j = 0; j < k; ++j)
    inputs.push_back(test::sixty_fourths(kRows * kWidth, static_cast<std::uint32_t>(10 + j)));
  inputs.push_back(test::sixty_fourths(kRows * k, 1));
  inputs.push_back(test::sixty_fourths(kVocab * kWidth, 2));
  return inputs;
}

Doubles log_softmax(Doubles logits, double temperature) {
  double sum = 0;
  for (const double z : logits) sum += std::exp(z / temperature);
  for (double& z : logits) z = z / temperature - std::log(sum);
  return logits;
}

Doubles head_of(const Doubles& head, const Doubles& x, std::int64_t row) {
  Doubles logits;
  for (std::int64_t v = 0; v < kVocab; ++v) {
    double sum = 0;
    for (std::int64_t d = 0; d < kWidth; ++d)
      sum += head[static_cast<std::size_t>(v * kWidth + d)] *
             x[static_cast<std::size_t>(row * kWidth + d)];
    logits.push_back(sum);
  }
  return logits;
}

// The objective. The teacher's side is a constant: `teacher` is the last expert's states as they
// are, whatever becomes of them in `inputs`, and likewise the head that it was seen through.
double objective(const std::vector<Doubles>& inputs, const std::vector<Doubles>& fixed) {
  const std::size_t k = inputs.size() - 2;
  const Doubles &weights = inputs[k], &head = inputs[k + 1];
  double total = 0;
  for (std::int64_t r = 0; r < kRows; ++r) {
    Doubles mixture(kVocab, 0.0);
    const Doubles p = log_softmax(head_of(fixed[k + 1], fixed[k - 1], r), kTemperature);
    for (std::size_t j = 0; j < k; ++j) {
      const Doubles logits = head_of(head, inputs[j], r);
      const double weight = weights[static_cast<std::size_t>(r) * k + j];
      for (std::size_t v = 0; v < logits.size(); ++v) mixture[v] += weight * logits[v];
      if (j + 1 == k) break;
      const Doubles q = log_softmax(logits, kTemperature);
      for (std::size_t v = 0; v < q.size(); ++v) total += kDistill * std::exp(p[v]) * (p[v] - q[v]);
    }
    const auto label = static_cast<std::size_t>(kLabels[static_cast<std::size_t>(r)]);
    total -= kCrossEntropy * log_softmax(mixture, 1)[label];
  }
  return total;
}

struct Outcome {
  double objective;
  std::vector<std::vector<float>> gradients;
};

Outcome run(const std::vector<Doubles>& inputs) {
  const auto k = static_cast<std::int64_t>(inputs.size()) - 2;
  const auto device = test::make_test_device();
  const auto trained = [&](Shape shape, const Doubles& values) {
    return Var(Tensor::from_host(*device, shape, test::narrow(values)),
               std::make_shared<autograd::GradSlot>());
  };
  Votes votes;
  for (std::int64_t j = 0; j < k; ++j)
    votes.experts.push_back(trained({kRows, kWidth}, inputs[static_cast<std::size_t>(j)]));
  votes.weights = trained({kRows, k}, inputs[inputs.size() - 2]);
  const Var head = trained({kVocab, kWidth}, inputs.back());
  autograd::Tape tape;
  const VoteSums sums =
      vote_loss(&tape, nullptr,
                {.head = {.loss = {.ce_weight = static_cast<float>(kCrossEntropy)},
                          .vocab = kVocab,
                          .chunk_rows = kChunk},
                 .distill_weight = static_cast<float>(kDistill),
                 .temperature = static_cast<float>(kTemperature)},
                votes, head, {}, Tensor::from_host(*device, {kRows}, kLabels));
  tape.backward();
  Outcome outcome{sums.head.objective + sums.distill, {}};
  for (const Var& expert : votes.experts) outcome.gradients.push_back(to_host(expert.slot->grad()));
  outcome.gradients.push_back(to_host(votes.weights.slot->grad()));
  outcome.gradients.push_back(to_host(head.slot->grad()));
  return outcome;
}

TEST(VoteLoss, GradientsAreThoseOfTheDefinition) {
  for (const int k : {2, 3, 4}) {
    SCOPED_TRACE(str(k, " layers"));
    const std::vector<Doubles> inputs = random_inputs(k);
    const Outcome got = run(inputs);
    const double value = objective(inputs, inputs);
    EXPECT_NEAR(got.objective, value, test::tolerance({value}, kRows * kVocab));
    const test::Definition definition = [&](const std::vector<Doubles>& moved) {
      return Doubles{objective(moved, inputs)};
    };
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto& gradient = got.gradients[i];
      const double bound =
          test::tolerance(Doubles(gradient.begin(), gradient.end()), kRows * kVocab * k);
      ASSERT_EQ(gradient.size(), inputs[i].size());
      for (std::size_t element = 0; element < gradient.size(); ++element) {
        Doubles direction(gradient.size(), 0.0);
        direction[element] = 1;
        EXPECT_NEAR(gradient[element],
                    test::difference_quotient(definition, inputs, {1.0}, i, direction), bound)
            << "input " << i << ", element " << element;
      }
    }
  }
}

}  // namespace
}  // namespace fathom::methods::mode
