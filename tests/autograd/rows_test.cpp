// The operations that treat each row by itself: norms, activations, residual sums, embeddings.

#include <cmath>
#include <gtest/gtest.h>

#include "autograd/operations.h"
#include "core/philox.h"
#include "gradient_check.h"

namespace fathom::test {
namespace {

using autograd::Tape;
using autograd::Var;
using kernels::Activation;
using kernels::NormKind;

struct Sizes {
  std::int64_t rows, columns;
};

void PrintTo(const Sizes& s, std::ostream* out) {
  *out << s.rows << "x" << s.columns;
}

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

const auto kShapes = testing::Values(Sizes{1, 1}, Sizes{3, 5}, Sizes{7, 33}, Sizes{33, 129},
                                     Sizes{2, 257}, Sizes{70, 4});

class Rows : public testing::TestWithParam<Sizes> {
 protected:
  Shape shape() const { return {GetParam().rows, GetParam().columns}; }
  std::int64_t rows() const { return GetParam().rows; }
  std::int64_t columns() const { return GetParam().columns; }
  std::unique_ptr<Device> device_ = make_test_device();
};
INSTANTIATE_TEST_SUITE_P(Shapes, Rows, kShapes);

// --- norms ---

// in = {x, weight[, bias]}; the whole of y.
Definition norm_definition(NormKind kind, double eps, Sizes s, bool bias) {
  return [=](const std::vector<Doubles>& in) {
    Doubles y(in[0].size());
    const auto n = static_cast<double>(s.columns);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const double* x = in[0].data() + r * s.columns;
      double mean = 0, square = 0;
      if (kind == NormKind::layer)
        for (std::int64_t c = 0; c < s.columns; ++c) mean += x[c] / n;
      for (std::int64_t c = 0; c < s.columns; ++c) square += (x[c] - mean) * (x[c] - mean) / n;
      for (std::int64_t c = 0; c < s.columns; ++c)
        y[at(r * s.columns + c)] =
            (x[c] - mean) / std::sqrt(square + eps) * in[1][at(c)] + (bias ? in[2][at(c)] : 0.0);
    }
    return y;
  };
}

// With so large an epsilon the one-column layer norm, whose variance is zero, stays well
// conditioned; the size that models use is tested beside it.
GradientCase norm_case(NormKind kind, float eps, Sizes s, bool bias) {
  GradientCase test;
  test.inputs = {random_input({s.rows, s.columns}, 1), random_input({s.columns}, 2)};
  if (bias) test.inputs.push_back(random_input({s.columns}, 3));
  test.operation = [=](Tape* tape, const std::vector<Var>& in) {
    return autograd::norm(tape, kind, eps, in[0], in[1], bias ? in[2] : Var());
  };
  test.definition = norm_definition(kind, static_cast<double>(eps), s, bias);
  test.longest_sum = std::max(s.rows, s.columns);
  return test;
}

TEST_P(Rows, LayerNorm) {
  for (const bool bias : {true, false})
    check_gradients(*device_, norm_case(NormKind::layer, 0.25f, GetParam(), bias));
}

TEST_P(Rows, LayerNormWithSmallEpsilon) {
  if (columns() > 1) check_gradients(*device_, norm_case(NormKind::layer, 1e-5f, GetParam(), true));
}

TEST_P(Rows, RmsNorm) {
  check_gradients(*device_, norm_case(NormKind::rms, 0.25f, GetParam(), false));
  if (columns() > 1) check_gradients(*device_, norm_case(NormKind::rms, 1e-6f, GetParam(), false));
}

// Any choice of what is trained: input, weight, bias.
TEST_P(Rows, LayerNormPartlyFrozen) {
  for (unsigned trained = 1; trained < 8; ++trained) {
    SCOPED_TRACE(trained);
    GradientCase test = norm_case(NormKind::layer, 0.25f, GetParam(), true);
    for (unsigned i = 0; i < 3; ++i) test.inputs[i].trained = (trained >> i) % 2 == 1;
    check_gradients(*device_, test);
  }
}

// --- activations ---

double activation(Activation kind, double x) {
  switch (kind) {
    case Activation::gelu_tanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf:
      return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return NAN;
}

constexpr Activation kActivations[] = {Activation::gelu_tanh, Activation::gelu_erf,
                                       Activation::relu, Activation::silu};
constexpr double kOffGrid = 1.0 / 128;  // no sum of x and bias is zero, relu's kink

TEST_P(Rows, Activation) {
  for (const Activation kind : kActivations) {
    SCOPED_TRACE(static_cast<int>(kind));
    GradientCase test;
    test.inputs = {random_input(shape(), 1, true, kOffGrid)};
    test.operation = [=](Tape* tape, const std::vector<Var>& in) {
      return autograd::activation(tape, kind, in[0]);
    };
    test.definition = [=](const std::vector<Doubles>& in) {
      Doubles y;
      for (const double x : in[0]) y.push_back(activation(kind, x));
      return y;
    };
    check_gradients(*device_, test);
  }
}

TEST_P(Rows, ActivationWithBias) {
  for (const Activation kind : kActivations) {
    for (unsigned trained = 1; trained < 4; ++trained) {
      SCOPED_TRACE(static_cast<int>(kind));
      GradientCase test;
      test.inputs = {random_input(shape(), 1, trained % 2 == 1),
                     random_input({columns()}, 2, trained / 2 == 1, kOffGrid)};
      test.operation = [=](Tape* tape, const std::vector<Var>& in) {
        return autograd::activation(tape, kind, in[0], in[1]);
      };
      test.definition = [=, this](const std::vector<Doubles>& in) {
        Doubles y(in[0].size());
        for (std::size_t i = 0; i < y.size(); ++i)
          y[i] = activation(kind, in[0][i] + in[1][i % at(columns())]);
        return y;
      };
      test.longest_sum = rows();
      check_gradients(*device_, test);
    }
  }
}

TEST_P(Rows, Gated) {
  for (const Activation kind : kActivations) {
    SCOPED_TRACE(static_cast<int>(kind));
    GradientCase test;
    test.inputs = {random_input({rows(), 2 * columns()}, 1, true, kOffGrid)};
    test.operation = [=](Tape* tape, const std::vector<Var>& in) {
      return autograd::gated(tape, kind, in[0]);
    };
    test.definition = [=, this](const std::vector<Doubles>& in) {
      Doubles y(in[0].size() / 2);
      for (std::int64_t r = 0; r < rows(); ++r)
        for (std::int64_t c = 0; c < columns(); ++c)
          y[at(r * columns() + c)] = activation(kind, in[0][at(2 * r * columns() + c)]) *
                                     in[0][at((2 * r + 1) * columns() + c)];
      return y;
    };
    check_gradients(*device_, test);
  }
}

// --- residual sums and dropout ---

// The factor of an element as elementwise.h defines it.
double mask(const kernels::Dropout& dropout, std::int32_t position, std::int32_t sample,
            std::int64_t column) {
  if (dropout.probability == 0) return 1;
  const Philox words = philox(dropout.key0, dropout.key1, static_cast<std::uint32_t>(column / 4),
                              static_cast<std::uint32_t>(position),
                              static_cast<std::uint32_t>(sample), dropout.site);
  if (uniform01(words.v[column % 4]) < dropout.probability) return 0;
  return 1 / (1 - static_cast<double>(dropout.probability));
}

TEST_P(Rows, Residual) {
  std::vector<std::int32_t> positions(at(rows())), samples(at(rows()));
  for (std::size_t r = 0; r < positions.size(); ++r) {
    positions[r] = static_cast<std::int32_t>(r % 5);
    samples[r] = static_cast<std::int32_t>(r / 5 + 40);
  }
  for (int variant = 0; variant < 8; ++variant) {
    SCOPED_TRACE(variant);
    const bool with_residual = variant % 2 == 1, with_bias = variant / 2 % 2 == 1;
    kernels::Dropout dropout;
    if (variant / 4 == 1)
      dropout = {.probability = 0.25f,
                 .key0 = 3,
                 .key1 = 9,
                 .site = 6,
                 .positions = Tensor::from_host(*device_, {rows()}, positions),
                 .samples = Tensor::from_host(*device_, {rows()}, samples)};
    GradientCase test;
    test.inputs = {random_input(shape(), 1)};
    if (with_residual) test.inputs.push_back(random_input(shape(), 2));
    if (with_bias) test.inputs.push_back(random_input({columns()}, 3));
    test.operation = [=](Tape* tape, const std::vector<Var>& in) {
      return autograd::residual(tape, with_residual ? in[1] : Var(), in[0],
                                with_bias ? in.back() : Var(), dropout);
    };
    test.definition = [=, this](const std::vector<Doubles>& in) {
      Doubles y(in[0].size());
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t r = i / at(columns()), c = i % at(columns());
        y[i] = (in[0][i] + (with_bias ? in.back()[c] : 0.0)) *
               mask(dropout, positions[r], samples[r], static_cast<std::int64_t>(c));
        if (with_residual) y[i] += in[1][i];
      }
      return y;
    };
    test.longest_sum = rows();
    check_gradients(*device_, test);
  }
}

TEST_P(Rows, Add) {
  GradientCase test;
  test.inputs = {random_input(shape(), 1), random_input(shape(), 2)};
  test.operation = [](Tape* tape, const std::vector<Var>& in) {
    return autograd::add(tape, in[0], in[1]);
  };
  test.definition = [](const std::vector<Doubles>& in) {
    Doubles y(in[0]);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += in[1][i];
    return y;
  };
  check_gradients(*device_, test);
}

TEST_P(Rows, AddOfOneTensorToItselfTwice) {
  GradientCase test;
  test.inputs = {random_input(shape(), 1)};
  test.operation = [](Tape* tape, const std::vector<Var>& in) {
    return autograd::add(tape, autograd::add(tape, in[0], in[0]), in[0]);
  };
  test.definition = [](const std::vector<Doubles>& in) {
    Doubles y(in[0]);
    for (double& value : y) value *= 3;
    return y;
  };
  check_gradients(*device_, test);
}

// --- embeddings ---

// ids in [first - 2, first + rows + 2): some repeat, some belong to other ranks.
TEST_P(Rows, EmbeddingOfARange) {
  constexpr std::int32_t kFirst = 11;
  const std::int64_t table_rows = rows(), tokens = 2 * rows() + 3;
  std::vector<std::int32_t> ids;
  for (std::int64_t t = 0; t < tokens; ++t)
    ids.push_back(kFirst - 2 + static_cast<std::int32_t>(t * 5 % (table_rows + 4)));
  ids[0] = ids[1] = kFirst;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    GradientCase test;
    test.inputs = {random_input({table_rows, columns()}, 1)};
    const Tensor device_ids = Tensor::from_host(*device_, {tokens}, ids);
    test.operation = [=](Tape* tape, const std::vector<Var>& in) {
      return autograd::embedding(tape, in[0], kFirst, device_ids);
    };
    test.definition = [=, this](const std::vector<Doubles>& in) {
      Doubles y(at(tokens * columns()), 0.0);
      for (std::int64_t t = 0; t < tokens; ++t) {
        const std::int64_t row = ids[at(t)] - kFirst;
        if (row < 0 || row >= table_rows) continue;
        for (std::int64_t c = 0; c < columns(); ++c)
          y[at(t * columns() + c)] = in[0][at(row * columns() + c)];
      }
      return y;
    };
    test.longest_sum = tokens;
    if (dtype == DType::f32) {
      check_gradients(*device_, test);
    } else {
      const Tensor narrow_table = Tensor::empty(*device_, test.inputs[0].shape, dtype);
      copy_from_host(narrow_table, narrow(test.inputs[0].values));
      const Var y = test.operation(nullptr, {Var(narrow_table)});
      expect_close(to_host(y.value), test.definition({test.inputs[0].values}), 0, "bf16 table");
    }
  }
}

// Ids just before and just behind the range leave their neighbours' gradients alone.
TEST(Embedding, GradientsStayInTheRange) {
  const auto device = make_test_device();
  constexpr std::int64_t kColumns = 70;
  const Tensor all = Tensor::zeros(*device, {5, kColumns});
  const Var table(Tensor::zeros(*device, {3, kColumns}),
                  std::make_shared<autograd::GradSlot>(all.slice_rows(1, 3)));
  const std::vector<std::int32_t> ids{9, 10, 12, 13};  // the range is 10, 11, 12
  Tape tape;
  const Var y = autograd::embedding(&tape, table, 10, Tensor::from_host(*device, {4}, ids));
  y.slot->add(Tensor::from_host(*device, {4, kColumns}, std::vector<float>(4 * kColumns, 1.0f)));
  tape.backward();
  const std::vector<float> gradient = to_host(all);
  for (std::int64_t row = 0; row < 5; ++row)
    for (std::int64_t c = 0; c < kColumns; ++c)
      ASSERT_EQ(gradient[at(row * kColumns + c)], row == 1 || row == 3 ? 1.0f : 0.0f) << row;
}

// A tensor rank may hold no entry of a small vocabulary: all its rows are zero, not left over.
TEST(Embedding, OfAnEmptyRange) {
  const auto device = make_test_device();
  const std::vector<std::int32_t> ids{0, 3, 1};
  { const Tensor dirt = Tensor::from_host(*device, {3, 4}, std::vector<float>(12, 7.0f)); }
  const Var y = autograd::embedding(nullptr, Var(Tensor::empty(*device, {0, 4})), 5,
                                    Tensor::from_host(*device, {3}, ids));
  EXPECT_EQ(to_host(y.value), std::vector<float>(12, 0.0f));
}

TEST_P(Rows, Gather) {
  std::vector<std::int32_t> picked;  // every second row, last first
  for (auto r = static_cast<std::int32_t>(rows()) - 1; r >= 0; r -= 2) picked.push_back(r);
  const auto count = static_cast<std::int64_t>(picked.size());
  const Tensor index = Tensor::from_host(*device_, {count}, picked);
  GradientCase test;
  test.inputs = {random_input(shape(), 1)};
  test.operation = [=](Tape* tape, const std::vector<Var>& in) {
    return autograd::gather(tape, in[0], index);
  };
  test.definition = [=, this](const std::vector<Doubles>& in) {
    Doubles y;
    for (const std::int32_t r : picked)
      y.insert(y.end(), in[0].begin() + r * columns(), in[0].begin() + (r + 1) * columns());
    return y;
  };
  check_gradients(*device_, test);
}

}  // namespace
}  // namespace fathom::test
