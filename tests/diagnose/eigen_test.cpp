// Operator norms through small matrices against numpy's SVD of the whole products.

#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "checkpoints/safetensors.h"
#include "diagnose/moc/symmetric_eigen.h"

namespace fathom::diagnose::moc {
namespace {

Matrix matrix(const checkpoints::SafetensorsReader& file, const std::string& name) {
  const auto shape = file.at(name).shape;
  Matrix result(shape[0], shape[1]);
  const std::vector<float> values = file.read_f32(name);
  result.values.assign(values.begin(), values.end());
  return result;
}

// tests/references/moc_norms.py made the file. The expected values were rounded to f32. Squares of
// singular values are found to 1e-15 of the largest one, so small ones to sqrt(1e-15) of it.
TEST(Eigen, SingularValuesOfProductsAreThoseOfNumpy) {
  const checkpoints::SafetensorsReader file(FATHOM_TEST_DATA "/diagnose/products.safetensors");
  for (const std::string name : {"small", "wide", "one", "deficient", "scaled", "equal"}) {
    const auto expected = file.read_f32(name + ".values");
    const auto actual =
        singular_values_of_product(matrix(file, name + ".B"), matrix(file, name + ".A"));
    ASSERT_EQ(actual.size(), expected.size()) << name;
    const double largest = expected[0];
    EXPECT_NEAR(actual[0], largest, 1e-7 * largest) << name;
    for (std::size_t i = 1; i < actual.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], 1e-7 * expected[i] + 1e-7 * largest) << name << " " << i;
  }
}

TEST(Eigen, ARebuiltMatrixIsTheMatrix) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (const std::int64_t n : {1, 2, 5, 33}) {
    Matrix m(n, n);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j <= i; ++j) m.at(i, j) = m.at(j, i) = normal(random);
    const Eigen eigen = symmetric_eigen(m);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double rebuilt = 0, orthogonal = 0;
        for (std::int64_t k = 0; k < n; ++k) {
          rebuilt += eigen.vectors.at(i, k) * eigen.values[static_cast<std::size_t>(k)] *
                     eigen.vectors.at(j, k);
          orthogonal += eigen.vectors.at(k, i) * eigen.vectors.at(k, j);
        }
        EXPECT_NEAR(rebuilt, m.at(i, j), 1e-13 * static_cast<double>(n));
        EXPECT_NEAR(orthogonal, i == j ? 1 : 0, 1e-13 * static_cast<double>(n));
      }
    for (std::size_t k = 1; k < eigen.values.size(); ++k)
      EXPECT_GE(eigen.values[k - 1], eigen.values[k]);
  }
}

// Before the first step B is 0.
TEST(Eigen, ControlsThatDoNothingHaveNormZero) {
  Matrix a(4, 9), b(9, 4);
  for (double& value : a.values) value = 0.25;
  EXPECT_EQ(singular_values_of_product(b, a), std::vector<double>(4, 0.0));
}

}  // namespace
}  // namespace fathom::diagnose::moc
