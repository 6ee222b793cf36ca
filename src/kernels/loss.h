#pragma once

#include "core/tensor.h"

namespace fathom::kernels {

/// Weights of the token losses. With z the student's logits and t the teacher's, per supervised
/// row:
///   cross-entropy CE = lse(z) - z[label]
///   forward KL       = KL(softmax(t / T) || softmax(z / T))      (no factor T^2)
/// and the gradient written is d(ce_weight CE + kl_weight KL)/dz.
struct TokenLoss {
  float ce_weight = 1.0f;
  float kl_weight = 0.0f;  ///< 0 = no teacher logits
  float temperature = 1.0f;
};

/// The logits of a chunk of rows on this rank: the vocabulary entries [first_id, first_id +
/// columns).
struct LogitChunk {
  Tensor student;  ///< f32 [n, v]; the gradient replaces it
  Tensor teacher;  ///< f32 [n, v] or undefined
  Tensor labels;   ///< i32 [n], global ids, all supervised
  std::int64_t first_id = 0;
};

/// Columns of the statistics of a row. Maxima are reduced over ranks first, then the sums.
enum LossStatistic : int { kMaxStudent, kMaxTeacher, kLossMaxima };
enum LossSum : int { kSumStudent, kSumStudentT, kSumTeacher, kCross, kLabelLogit, kLossSums };
/// Columns of a row's result: cross-entropy, forward KL, 1 if the label has the largest logit.
enum LossResult : int { kCrossEntropy, kForwardKl, kCorrect, kLossResults };

/// The three passes of a vocabulary that is spread over ranks: maxima [n, kLossMaxima] are then
/// max-reduced, sums [n, kLossSums] sum-reduced, and the last pass writes results [n, kLossResults]
/// and, if `gradient`, replaces the student's logits by their gradient.
void loss_maxima(const LogitChunk& chunk, const Tensor& maxima);
void loss_sums(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& maxima,
               const Tensor& sums);
void loss_gradient(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& maxima,
                   const Tensor& sums, const Tensor& results, bool gradient);

/// All three passes at once, each row staying in cache: for a vocabulary that is whole on this
/// rank.
void loss_whole(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& results,
                bool gradient);

}  // namespace fathom::kernels
