// Theorem 4.1's linear case as a property of the operation: with linear layers, a mixture of two of
// them (MoLEx) is the layer plus (1 - alpha)(f_l - f_t), which a control of rank r makes exactly if
// that difference has rank r at most, and else misses by its tail singular values, no less.

#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "../autograd/gradient_check.h"
#include "diagnose/moc/symmetric_eigen.h"
#include "methods/moc/operations.h"

namespace fathom::test {
namespace {

using autograd::Var;
using diagnose::moc::Matrix;
using namespace methods::moc;
using methods::routing::make_groups;
using methods::routing::Scope;
using methods::routing::Tokens;

constexpr std::int64_t kWidth = 12;
constexpr double kAlpha = 0.7;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.columns; ++k)
      for (std::int64_t j = 0; j < b.columns; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}

Matrix random_matrix(std::int64_t rows, std::int64_t columns, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Matrix m(rows, columns);
  for (double& value : m.values) value = normal(random) / std::sqrt(static_cast<double>(columns));
  return m;
}

double frobenius(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

/// The best control of rank r for alpha B A = target: its leading right singular vectors as A.
struct BestControl {
  Matrix a, b;
  double tail;  ///< root of the sum of squares of the singular values that it leaves out
};
BestControl best_control(const Matrix& target, std::int64_t rank) {
  const auto eigen = diagnose::moc::symmetric_eigen(diagnose::moc::gram_of_columns(target));
  BestControl best{Matrix(rank, kWidth), Matrix(), 0};
  for (std::int64_t i = 0; i < kWidth; ++i) {
    if (i >= rank) best.tail += std::max(0.0, eigen.values[static_cast<std::size_t>(i)]);
    for (std::int64_t c = 0; c < kWidth && i < rank; ++c) best.a.at(i, c) = eigen.vectors.at(c, i);
  }
  best.tail = std::sqrt(best.tail);
  Matrix transposed(kWidth, rank);
  for (std::int64_t i = 0; i < rank; ++i)
    for (std::int64_t c = 0; c < kWidth; ++c) transposed.at(c, i) = best.a.at(i, c);
  best.b = product(target, transposed);
  for (double& value : best.b.values) value /= kAlpha;
  return best;
}

class LinearCase : public ::testing::Test {
 protected:
  Tensor tensor(const Matrix& m) {
    return Tensor::from_host(*device_, {m.rows, m.columns}, narrow(m.values));
  }
  // What the operation adds to all unit vectors less the target: the error as a matrix. Nothing is
  // routed: the one expert has weight 0.
  double error(const Matrix& target, const Matrix& a, const Matrix& b) {
    Matrix identity(kWidth, kWidth);
    for (std::int64_t i = 0; i < kWidth; ++i) identity.at(i, i) = 1;
    autograd::TokenRows rows;
    rows.starts = {0, kWidth};
    rows.prompts = {{0, kWidth}};
    const Groups groups = make_groups(*device_, rows, Scope::microbatch, Tokens::all);
    auto decision = std::make_shared<Decision>();
    decision->groups.push_back({{0}, {0.0f}, {}});
    const Var y = control(nullptr, Var(Tensor::zeros(*device_, {kWidth, kWidth})),
                          Var(tensor(identity)), {Var(tensor(a)), Var(tensor(b)), a.rows, {0}}, 0,
                          static_cast<float>(kAlpha), groups, {decision, Var()});
    std::vector<double> difference;
    const std::vector<float> made = to_host(y.value);  // row i is the image of unit vector i
    for (std::int64_t i = 0; i < kWidth; ++i)
      for (std::int64_t j = 0; j < kWidth; ++j)
        difference.push_back(static_cast<double>(made[static_cast<std::size_t>(i * kWidth + j)]) -
                             target.at(j, i));
    return frobenius(difference);
  }
  std::unique_ptr<Device> device_ = make_test_device();
};

TEST_F(LinearCase, AControlMakesAMixtureOfLayersUpToItsRank) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const std::int64_t difference_rank = 1 + seed % 6;
    const Matrix f = random_matrix(kWidth, kWidth, random);
    const Matrix low = product(random_matrix(kWidth, difference_rank, random),
                               random_matrix(difference_rank, kWidth, random));
    Matrix other = f, target = f;  // f_l, and (1 - alpha)(f_l - f_t)
    for (std::size_t i = 0; i < f.values.size(); ++i) {
      other.values[i] += low.values[i];
      const double mixed = kAlpha * f.values[i] + (1 - kAlpha) * other.values[i];
      target.values[i] = mixed - f.values[i];
    }
    // f32 throughout: sums of at most kWidth products, each rounded.
    const double rounding = 0x1p-24 * 4 * kWidth * frobenius(target.values);
    for (std::int64_t rank = 1; rank <= 6; ++rank) {
      const BestControl best = best_control(target, rank);
      const double made = error(target, best.a, best.b);
      EXPECT_NEAR(made, best.tail, rounding) << seed << " rank " << rank;
      if (rank >= difference_rank) {
        EXPECT_LE(made, rounding) << seed << " rank " << rank;
      } else {
        EXPECT_GT(made, 100 * rounding) << seed << " rank " << rank;
      }
      // No other control of that rank comes closer.
      for (const double size : {1e-3, 1e-1, 1.0}) {
        Matrix a = best.a, b = best.b;
        const Matrix da = random_matrix(rank, kWidth, random),
                     db = random_matrix(kWidth, rank, random);
        for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += size * da.values[i];
        for (std::size_t i = 0; i < b.values.size(); ++i) b.values[i] += size * db.values[i];
        EXPECT_GE(error(target, a, b), best.tail - rounding) << seed << " rank " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace fathom::test
