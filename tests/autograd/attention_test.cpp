// Attention and rotary embedding as operations on the tape.

#include <cmath>
#include <gtest/gtest.h>

#include "autograd/operations.h"
#include "gradient_check.h"
#include "tests/kernels/attention_reference.h"

namespace fathom::test {
namespace {

using autograd::RopeTables;
using autograd::Tape;
using autograd::TokenRows;
using autograd::Var;

struct AttentionCase {
  const char* name;
  kernels::AttentionShape shape;
  std::vector<std::int32_t> lengths;
  bool rope = false;
  float dropout = 0;
};

void PrintTo(const AttentionCase& c, std::ostream* out) {
  *out << c.name;
}

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// Angles of position p and pair i, in double.
double angle(std::int32_t position, std::int64_t pair, std::int64_t head_dim) {
  return position *
         std::pow(100.0, -2.0 * static_cast<double>(pair) / static_cast<double>(head_dim));
}

class AttentionOperation : public testing::TestWithParam<AttentionCase> {
 protected:
  AttentionOperation() {
    const AttentionCase& c = GetParam();
    rows_.starts = {0};
    for (std::size_t s = 0; s < c.lengths.size(); ++s) {
      for (std::int32_t p = 0; p < c.lengths[s]; ++p) positions_.push_back(p);
      rows_.starts.push_back(rows_.starts.back() + c.lengths[s]);
      rows_.sample_ids.push_back(static_cast<std::uint32_t>(70 + 3 * s));
    }
    rows_.positions = Tensor::from_host(*device_, {tokens()}, positions_);
    dropout_ = {.probability = c.dropout,
                .key0 = 5,
                .key1 = 8,
                .site = 13,
                .first_head = 2,
                .samples = rows_.sample_ids};
    if (c.rope) make_tables();
  }

  void make_tables() {
    constexpr std::int64_t kPositions = 64;
    const std::int64_t half = GetParam().shape.head_dim / 2;
    std::vector<float> cosines, sines;
    for (std::int32_t p = 0; p < kPositions; ++p)
      for (std::int64_t i = 0; i < half; ++i) {
        cosines.push_back(static_cast<float>(std::cos(angle(p, i, 2 * half))));
        sines.push_back(static_cast<float>(std::sin(angle(p, i, 2 * half))));
      }
    tables_.cosines = Tensor::from_host(*device_, {kPositions, half}, cosines);
    tables_.sines = Tensor::from_host(*device_, {kPositions, half}, sines);
  }

  std::int64_t tokens() const { return static_cast<std::int64_t>(positions_.size()); }

  std::int64_t width() const {
    const kernels::AttentionShape& shape = GetParam().shape;
    return (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  }

  // Columns [begin, begin + count) of the fused projection; queries and keys rotated.
  Doubles columns(const Doubles& qkv, std::int64_t begin, std::int64_t count, bool rotate) const {
    const std::int64_t dim = GetParam().shape.head_dim, half = dim / 2;
    Doubles out;
    for (std::int64_t r = 0; r < tokens(); ++r)
      for (std::int64_t c = 0; c < count; ++c) {
        const double* head = qkv.data() + r * width() + begin + c / dim * dim;
        const std::int64_t i = c % dim;
        if (!rotate) {
          out.push_back(head[i]);
          continue;
        }
        const double turn = angle(positions_[at(r)], i % half, dim);
        out.push_back(i < half ? head[i] * std::cos(turn) - head[i + half] * std::sin(turn)
                               : head[i] * std::cos(turn) + head[i - half] * std::sin(turn));
      }
    return out;
  }

  GradientCase make_case() const {
    const AttentionCase c = GetParam();
    GradientCase test;
    test.inputs = {random_input({tokens(), width()}, 1)};
    test.operation = [=, this](Tape* tape, const std::vector<Var>& in) {
      return autograd::attention(tape, c.shape, in[0], rows_, c.rope ? &tables_ : nullptr,
                                 dropout_);
    };
    test.definition = [=, this](const std::vector<Doubles>& in) {
      const std::int64_t q = c.shape.heads * c.shape.head_dim;
      const std::int64_t kv = c.shape.kv_heads * c.shape.head_dim;
      Doubles out, lse;
      const Reference reference{c.shape, rows_.starts, dropout_};
      reference.forward(columns(in[0], 0, q, c.rope), columns(in[0], q, kv, c.rope),
                        columns(in[0], q + kv, kv, false), out, lse);
      return out;
    };
    // A key's gradient: every later query of its group's heads, each a sum over head_dim.
    test.longest_sum = *std::max_element(c.lengths.begin(), c.lengths.end()) * c.shape.head_dim *
                       c.shape.heads / c.shape.kv_heads;
    return test;
  }

  std::unique_ptr<Device> device_ = make_test_device();
  std::vector<std::int32_t> positions_;
  TokenRows rows_;
  RopeTables tables_;
  kernels::AttentionDropout dropout_;
};

TEST_P(AttentionOperation, AgreesWithItsDefinition) {
  check_gradients(*device_, make_case());
}

// Played back from the input alone, the gradients are the same to the bit.
TEST_P(AttentionOperation, RecomputedIsTheSame) {
  const GradientCase test = make_case();
  std::vector<float> gradients[2];
  std::size_t saved[2] = {0, 0};
  for (const int recomputed : {0, 1}) {
    Tape tape;
    const Var leaf(Tensor::from_host(*device_, test.inputs[0].shape, narrow(test.inputs[0].values)),
                   std::make_shared<autograd::GradSlot>());
    // The operation rotates its input in place, so it gets one of its own.
    const auto f = [&](Tape* inner, const Var& x) {
      return test.operation(inner, {autograd::residual(inner, {}, x, {}, {})});
    };
    const Var y = recomputed == 1 ? autograd::recompute(&tape, leaf, f) : f(&tape, leaf);
    for (const auto& [name, bytes] : tape.saved_bytes()) saved[recomputed] += bytes;
    y.slot->add(Tensor::from_host(*device_, y.value.shape(),
                                  narrow(sixty_fourths(y.value.elements(), 31))));
    tape.backward();
    gradients[recomputed] = to_host(leaf.slot->grad());
  }
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_LT(saved[1], saved[0]);
}

const AttentionCase kCases[] = {
    {"one_token", {1, 1, 2, 0, 1.0f}, {1}},
    {"plain", {2, 2, 4, 0, 0.5f}, {5, 1, 9}},
    {"grouped", {6, 2, 8, 0, 0.35f}, {7, 3}},
    {"one_key_head", {3, 1, 6, 0, 0.4f}, {11}},
    {"window", {2, 1, 4, 3, 0.5f}, {9, 2, 4}},
    {"window_of_one", {2, 2, 4, 1, 0.5f}, {4, 3}},
    {"rope", {2, 2, 4, 0, 0.5f}, {5, 1, 9}, true},
    {"grouped_rope_window", {4, 2, 6, 4, 0.4f}, {8, 5}, true},
    {"dropout", {2, 2, 4, 0, 0.5f}, {6, 7}, false, 0.3f},
    {"everything", {6, 3, 8, 5, 0.35f}, {1, 9, 4, 6}, true, 0.2f},
    {"many_columns", {3, 3, 33 * 2, 0, 0.12f}, {33}, true},
};
INSTANTIATE_TEST_SUITE_P(Cases, AttentionOperation, testing::ValuesIn(kCases),
                         [](const auto& named) { return named.param.name; });

}  // namespace
}  // namespace fathom::test
