#include "diagnose/moc/symmetric_eigen.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"

namespace fathom::diagnose::moc {
namespace {

// J^T M J and V J for the rotation J of the plane (p, q) that makes m[p][q] zero.
void rotate(Matrix& m, Matrix& v, std::int64_t p, std::int64_t q) {
  const double theta = (m.at(q, q) - m.at(p, p)) / (2 * m.at(p, q));
  const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::hypot(theta, 1.0));
  const double c = 1 / std::hypot(t, 1.0), s = t * c;
  const auto turn = [c, s](double& x, double& y) {
    const double was = x;
    x = c * was - s * y;
    y = s * was + c * y;
  };
  for (std::int64_t k = 0; k < m.rows; ++k) turn(m.at(k, p), m.at(k, q));
  for (std::int64_t k = 0; k < m.rows; ++k) turn(m.at(p, k), m.at(q, k));
  for (std::int64_t k = 0; k < m.rows; ++k) turn(v.at(k, p), v.at(k, q));
}

// One pass over all pairs; false when nothing above `small` was left to rotate.
bool sweep(Matrix& m, Matrix& v, double small) {
  bool rotated = false;
  for (std::int64_t p = 0; p < m.rows; ++p)
    for (std::int64_t q = p + 1; q < m.rows; ++q) {
      if (std::abs(m.at(p, q)) <= small) continue;
      rotate(m, v, p, q);
      rotated = true;
    }
  return rotated;
}

}  // namespace

Matrix gram_of_rows(const Matrix& x) {
  Matrix gram(x.rows, x.rows);
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < x.columns; ++k) sum += x.at(i, k) * x.at(j, k);
      gram.at(i, j) = gram.at(j, i) = sum;
    }
  return gram;
}

Matrix gram_of_columns(const Matrix& x) {
  Matrix gram(x.columns, x.columns);
  for (std::int64_t k = 0; k < x.rows; ++k)
    for (std::int64_t i = 0; i < x.columns; ++i)
      for (std::int64_t j = 0; j < x.columns; ++j) gram.at(i, j) += x.at(k, i) * x.at(k, j);
  return gram;
}

Eigen symmetric_eigen(Matrix m) {
  FATHOM_CHECK(m.rows == m.columns, "a matrix of ", m.rows, " x ", m.columns);
  const std::int64_t n = m.rows;
  Matrix v(n, n);
  double squares = 0;
  for (const double value : m.values) squares += value * value;
  for (std::int64_t i = 0; i < n; ++i) v.at(i, i) = 1;
  // Convergence is quadratic: ten sweeps do for any size here.
  const double small = std::numeric_limits<double>::epsilon() / 16 * std::sqrt(squares);
  for (int i = 0; i < 50 && sweep(m, v, small); ++i) {
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return m.at(a, a) > m.at(b, b); });
  Eigen eigen{{}, Matrix(n, n)};
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t from = order[static_cast<std::size_t>(i)];
    eigen.values.push_back(m.at(from, from));
    for (std::int64_t k = 0; k < n; ++k) eigen.vectors.at(k, i) = v.at(k, from);
  }
  return eigen;
}

std::vector<double> singular_values_of_product(const Matrix& b, const Matrix& a) {
  FATHOM_CHECK(b.columns == a.rows, "B has ", b.columns, " columns for ", a.rows, " rows of A");
  const std::int64_t r = a.rows;
  const Eigen of_a = symmetric_eigen(gram_of_rows(a));
  // Columns of W = Q sqrt(L), so that W W^T = A A^T; then |B A x| = |B W y| over |x| = |y|.
  Matrix w = of_a.vectors;
  for (std::int64_t i = 0; i < r; ++i)
    for (std::int64_t k = 0; k < r; ++k)
      w.at(k, i) *= std::sqrt(std::max(0.0, of_a.values[static_cast<std::size_t>(i)]));
  Matrix bw(b.rows, r);
  for (std::int64_t row = 0; row < b.rows; ++row)
    for (std::int64_t k = 0; k < r; ++k)
      for (std::int64_t i = 0; i < r; ++i) bw.at(row, i) += b.at(row, k) * w.at(k, i);
  std::vector<double> values = symmetric_eigen(gram_of_columns(bw)).values;
  for (double& value : values) value = std::sqrt(std::max(0.0, value));
  return values;
}

}  // namespace fathom::diagnose::moc
