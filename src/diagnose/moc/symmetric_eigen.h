#pragma once

#include <cstdint>
#include <vector>

namespace fathom::diagnose::moc {

/// Row-major, in double: what is diagnosed is small beside the model.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(std::int64_t r, std::int64_t c)
      : rows(r), columns(c), values(static_cast<std::size_t>(r * c), 0.0) {}
  double& at(std::int64_t r, std::int64_t c) {
    return values[static_cast<std::size_t>(r * columns + c)];
  }
  double at(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * columns + c)];
  }
};

/// X^T X and X X^T.
Matrix gram_of_columns(const Matrix& x);
Matrix gram_of_rows(const Matrix& x);

struct Eigen {
  std::vector<double> values;  ///< descending
  Matrix vectors;              ///< column i belongs to values[i]
};

/// All eigenvalues of a symmetric matrix by cyclic Jacobi rotations, to rounding; O(n^3) a sweep.
Eigen symmetric_eigen(Matrix matrix);

/// The singular values of B A, descending, B [d, r] and A [r, d], through matrices r x r alone: the
/// eigenvalues of S (B^T B) S with S S = A A^T. Half of the digits of those far below the largest
/// are lost, none of the largest's.
std::vector<double> singular_values_of_product(const Matrix& b, const Matrix& a);

}  // namespace fathom::diagnose::moc
