#pragma once

#include "core/tensor.h"
#include "kernels/divergence.h"

namespace fathom::kernels {

/// The token losses of a chunk of supervised rows. With z the student's logits and t the teacher's,
///   cross-entropy CE = lse(z) - z[label]
///   divergence     D = divergence of q = softmax(z / T) from p = softmax(t / T)  (no factor T^2)
///   objective        = ce_weight w[0] CE + kd_weight w[1] D,   w = the row's weights or 1
/// and the gradient written is d(objective)/dz.
struct TokenLoss {
  float ce_weight = 1.0f;
  float kd_weight = 0.0f;
  float temperature = 1.0f;
  DivergenceForm divergence = {};
  bool teacher_cross_entropy = false;  ///< also that of the label under the teacher, at T = 1
};

/// The logits of a chunk of rows on this rank: the vocabulary entries [first_id, first_id +
/// columns).
struct LogitChunk {
  Tensor student;  ///< f32 [n, v]; the gradient replaces it
  Tensor teacher;  ///< f32 [n, v] or undefined; scratch of a two_stage() gradient, so lost with it
  Tensor labels;   ///< i32 [n], global ids, all supervised
  std::int64_t first_id = 0;
  Tensor row_weights = {};  ///< f32 [n, 2] or undefined: factors of the row's CE and divergence
  Tensor row_alpha =
      {};  ///< f32 [n] or undefined: alpha of each row's skewed divergence, in (0, 1)
};

/// Columns of the statistics of a row, in the order in which ranks reduce them: first the maxima,
/// then the sums, then, if two_stage(), the sums of the divergence.
enum LossMaximum : int { kMaxStudent, kMaxTeacher, kLossMaxima };
enum LossSum : int {
  kSumStudent,    ///< of exp(z - max)
  kSumStudentT,   ///< of exp((z - max) / T)
  kSumTeacherT,   ///< of exp((t - max) / T)
  kCross,         ///< of exp((t - max) / T) (difference of the shifted logits) / T
  kLabelLogit,    ///< z[label]
  kSumTeacher,    ///< of exp(t - max); this and the next only for teacher_cross_entropy
  kTeacherLabel,  ///< t[label]
  kLossSums
};
enum DivergenceSum : int {
  kDivergenceSum,  ///< D
  kMeanSlope,  ///< sum_i q_i g_i with g = dD/dq up to a constant: dD/dz_j = q_j (g_j - this) / T
  kDivergenceSums
};
/// Columns of a row's result.
enum LossResult : int {
  kCrossEntropy,
  kDivergence,           ///< 0 without a teacher
  kObjective,            ///< what the gradient is of
  kCorrect,              ///< 1 if the label has the largest logit
  kTeacherCrossEntropy,  ///< 0 unless asked for
  kLossResults
};

/// True if the divergence needs the third statistic: all but the forward KL, whose gradient is
/// q - p.
bool two_stage(const TokenLoss& loss, const LogitChunk& chunk);

/// The passes of a vocabulary that is spread over ranks: maxima [n, kLossMaxima] are then
/// max-reduced, sums [n, kLossSums] sum-reduced, with two_stage() divergences [n, kDivergenceSums]
/// too, and the last pass writes results [n, kLossResults] and, if `gradient`, replaces the
/// student's logits by their gradient. All four take the same loss, chunk and `gradient`.
void loss_maxima(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& maxima);
void loss_sums(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& maxima,
               const Tensor& sums);
void loss_divergences(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& maxima,
                      const Tensor& sums, const Tensor& divergences, bool gradient);
/// `divergences` is read with two_stage() only.
void loss_gradient(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& maxima,
                   const Tensor& sums, const Tensor& divergences, const Tensor& results,
                   bool gradient);

/// All passes at once, each row staying in cache: for a vocabulary that is whole on this rank.
/// Exponentials an entry with gradient, at T = 1 and otherwise (there with a cross-entropy):
/// cross-entropy 2, forward KL 4 and 6, reverse KL 3 and 5, tvd 4 and 6, the mixtures 4 and 6 and a
/// logarithm.
void loss_whole(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& results,
                bool gradient);

}  // namespace fathom::kernels
