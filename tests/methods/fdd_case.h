#pragma once

#include <algorithm>
#include <cmath>

#include "methods/distill/fdd.h"
#include "model/shard.h"
#include "tests/autograd/gradient_check.h"

// FDD written from its definition, in double, and a way to run ours on the same numbers.

namespace fathom::test {

struct FddSizes {
  std::int64_t layers, rows;
  std::int64_t width, vocab;
  std::int64_t teacher_width, teacher_vocab;

  std::int64_t counted() const { return std::min(vocab, teacher_vocab); }
};

/// All layers' states [K, rows, width] in one array, and the head [vocab, width], of each model.
struct FddValues {
  Doubles states, head, teacher_states, teacher_head;
};

inline FddValues fdd_values(const FddSizes& s) {
  return {sixty_fourths(s.layers * s.rows * s.width, 1), sixty_fourths(s.vocab * s.width, 2),
          sixty_fourths(s.layers * s.rows * s.teacher_width, 3),
          sixty_fourths(s.teacher_vocab * s.teacher_width, 4)};
}

/// log softmax(head . state / temperature) over the first `counted` entries.
inline Doubles defined_log_softmax(const double* state, const Doubles& head, std::int64_t width,
                                   std::int64_t counted, double temperature) {
  Doubles z(static_cast<std::size_t>(counted), 0.0);
  for (std::int64_t v = 0; v < counted; ++v)
    for (std::int64_t c = 0; c < width; ++c) z[v] += head[v * width + c] * state[c] / temperature;
  const double largest = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (const double value : z) sum += std::exp(value - largest);
  for (double& value : z) value -= largest + std::log(sum);
  return z;
}

struct DefinedFdd {
  double trajectory = 0, derivative = 0;
};

inline DefinedFdd defined_fdd(const FddSizes& s, double temperature, const FddValues& values) {
  DefinedFdd sums;
  const std::int64_t n = s.counted();
  for (std::int64_t r = 0; r < s.rows; ++r) {
    Doubles student_before, teacher_before;
    for (std::int64_t k = 0; k < s.layers; ++k) {
      const double* student = &values.states[(k * s.rows + r) * s.width];
      const double* teacher = &values.teacher_states[(k * s.rows + r) * s.teacher_width];
      const auto of_student = [&](double t) {
        return defined_log_softmax(student, values.head, s.width, n, t);
      };
      const auto of_teacher = [&](double t) {
        return defined_log_softmax(teacher, values.teacher_head, s.teacher_width, n, t);
      };
      const Doubles q = of_student(temperature), p = of_teacher(temperature);
      for (std::int64_t v = 0; v < n; ++v) sums.trajectory += std::exp(p[v]) * (p[v] - q[v]);
      const Doubles now = of_student(1), theirs = of_teacher(1);
      if (k > 0) {
        double own = 0, other = 0, product = 0;
        for (std::int64_t v = 0; v < n; ++v) {
          const double a = now[v] - student_before[v], b = theirs[v] - teacher_before[v];
          own += a * a;
          other += b * b;
          product += a * b;
        }
        sums.derivative +=
            1 - product / (std::max(std::sqrt(own), 1e-5) * std::max(std::sqrt(other), 1e-5));
      }
      student_before = now;
      teacher_before = theirs;
    }
  }
  return sums;
}

struct FddOutcome {
  methods::distill::FddSums sums;
  std::vector<float> states, head;  ///< gradients; of all layers, and of this rank's entries
};

/// Runs ours; with a group, the vocabulary is spread over its ranks.
inline FddOutcome run_fdd(Device& device, comm::Communicator* group, const FddSizes& s,
                          const kernels::DynamicsLoss& loss, std::int64_t chunk_rows,
                          const FddValues& values) {
  using autograd::GradSlot;
  using autograd::Var;
  const auto shard = [&](std::int64_t vocab) {
    model::ModelSpec spec;
    spec.heads = spec.kv_heads = spec.ffn = 6;
    spec.vocab = vocab;
    return model::make_shard(spec, group ? group->rank() : 0, group ? group->size() : 1,
                             s.counted());
  };
  const auto upload = [&](const Doubles& from, std::int64_t first, std::int64_t rows,
                          std::int64_t width) {
    const auto begin = from.begin() + first * width;
    return Tensor::from_host(device, {rows, width}, narrow({begin, begin + rows * width}));
  };
  const model::Shard mine = shard(s.vocab), theirs = shard(s.teacher_vocab);
  const Var head(upload(values.head, mine.first_vocab, mine.vocab, s.width),
                 std::make_shared<GradSlot>(Tensor::zeros(device, {mine.vocab, s.width})));
  const Var teacher_head(
      upload(values.teacher_head, theirs.first_vocab, theirs.vocab, s.teacher_width));
  methods::distill::KeyLayerStates student{{}, &head}, teacher{{}, &teacher_head};
  for (std::int64_t k = 0; k < s.layers; ++k) {
    student.states.emplace_back(upload(values.states, k * s.rows, s.rows, s.width),
                                std::make_shared<GradSlot>());
    teacher.states.emplace_back(upload(values.teacher_states, k * s.rows, s.rows, s.teacher_width));
  }
  autograd::Tape tape;
  FddOutcome outcome;
  outcome.sums = fdd_loss(
      &tape, group,
      {.loss = loss, .vocab = std::min(mine.vocab, theirs.vocab), .chunk_rows = chunk_rows},
      student, teacher);
  tape.backward();
  for (const Var& state : student.states) {
    const std::vector<float> gradient = to_host(state.slot->grad());
    outcome.states.insert(outcome.states.end(), gradient.begin(), gradient.end());
  }
  outcome.head = to_host(head.slot->grad());
  return outcome;
}

}  // namespace fathom::test
