#pragma once

#include "core/tensor.h"

namespace fathom::kernels {

/// How much each token of one sequence is looked at by the others (MTA's importance): with
/// x_t = h_t / (std(h_t) + 1e-5), the unbiased deviation over the d columns,
///
///   importance[j] = mean over i of softmax_j(x_i . x_j / sqrt(d)), j != i,
///
/// in both directions of the text. states [L, d] -> importance [L], which sums to 1; a sequence of
/// one token has importance 1. 2 L^2 d multiply-adds in one GEMM, or several when the scores of a
/// block of queries would take more than 4 MiB, which is all the memory that it takes.
void token_importance(const Tensor& states, const Tensor& importance);

}  // namespace fathom::kernels
