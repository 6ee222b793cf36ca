#pragma once

#include "core/tensor.h"

// How next-token distributions develop over the layers (FDD, Gong et al., ACL 2025): with z_k the
// student's logits at key layer k and t_k the teacher's, per row
//
//   trajectory = sum over k of KL(softmax(t_k / T) || softmax(z_k / T))      (no factor T^2)
//   derivative = sum over k > 0 of 1 - cos(d^S_k, d^T_k),  d_k = log softmax(z_k) - log
//   softmax(z_{k-1})
//
// the derivative at temperature 1. Vectors shorter than 1e-5 count as that long in a cosine.

namespace fathom::kernels {

struct DynamicsLoss {
  float trajectory_weight = 0, derivative_weight = 0;  ///< of the gradient
  float temperature = 5;                               ///< of the trajectory
};

/// Logits of K key layers for a chunk of rows: the vocabulary entries of this rank.
struct DynamicsChunk {
  Tensor student;  ///< f32 [K, n, v]; the gradient replaces it
  Tensor teacher;  ///< f32 [K, n, v]; overwritten with the gradient

  std::int64_t layers() const { return student.size(0); }
  std::int64_t rows() const { return student.size(1); }
};

/// Columns of the statistics of a row, for each key layer: maxima, then sums.
enum DynamicsMaximum : int { kDynamicsMaxStudent, kDynamicsMaxTeacher, kDynamicsMaxima };
enum DynamicsSum : int {
  kDynamicsStudent,
  kDynamicsTeacher,
  kDynamicsStudentT,  // at the trajectory's temperature
  kDynamicsTeacherT,
  kDynamicsCross,
  kDynamicsSums
};
/// For each pair of consecutive key layers: squares and product of the two changes, and their sums.
enum DynamicsProduct : int {
  kChangeStudent2,
  kChangeTeacher2,
  kChangeProduct,
  kChangeStudent,
  kChangeTeacher,
  kDynamicsProducts
};
/// Columns of a row's result.
enum DynamicsResult : int { kTrajectory, kDerivative, kDynamicsResults };

/// The passes over a chunk. Where the vocabulary is spread over ranks, maxima [n, K
/// kDynamicsMaxima] are max-reduced between them, and sums [n, K kDynamicsSums] and products [n, (K
/// - 1) kDynamicsProducts] sum-reduced. The last pass writes results [n, kDynamicsResults] and, if
/// `gradient`, replaces the student's logits by the gradient of the weighted terms.
void dynamics_maxima(const DynamicsChunk& chunk, const Tensor& maxima);
void dynamics_sums(const DynamicsLoss& loss, const DynamicsChunk& chunk, const Tensor& maxima,
                   const Tensor& sums);
void dynamics_products(const DynamicsChunk& chunk, const Tensor& maxima, const Tensor& sums,
                       const Tensor& products);
void dynamics_gradient(const DynamicsLoss& loss, const DynamicsChunk& chunk, const Tensor& maxima,
                       const Tensor& sums, const Tensor& products, const Tensor& results,
                       bool gradient);

/// All passes at once, row by row, where the vocabulary is not spread: a row's logits are read from
/// memory once and stay in the cache. Statistics are left as by the single passes.
void dynamics(const DynamicsLoss& loss, const DynamicsChunk& chunk, const Tensor& maxima,
              const Tensor& sums, const Tensor& products, const Tensor& results, bool gradient);

}  // namespace fathom::kernels
