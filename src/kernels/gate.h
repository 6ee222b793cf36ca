#pragma once

#include "core/tensor.h"

// The rows of a router: scores [n, experts] of tokens, of which only those with counted[r] = 1
// count. Groups are ranges of rows, [starts[g], starts[g + 1]).

namespace fathom::kernels {

/// probs = the softmax of each counted row of scores; picks = 1 at its k largest scores (of equal
/// ones the first), 0 elsewhere. Rows that do not count are 0 in both.
void gate_tokens(const Tensor& scores, const Tensor& counted, std::int64_t k, const Tensor& probs,
                 const Tensor& picks);

/// sums [groups, 3 experts]: each group's sums of counted scores, of probs and of picks.
void gate_sums(const Tensor& scores, const Tensor& probs, const Tensor& picks,
               const Tensor& counted, const Tensor& starts, const Tensor& sums);

/// dscores = counted times the group's row of dscore_sums [groups, experts], and, unless dprob_sums
/// [experts] is undefined, the gradient of the softmax that has it as its own. group[r] i32 [n].
void gate_backward(const Tensor& probs, const Tensor& counted, const Tensor& group,
                   const Tensor& dscore_sums, const Tensor& dprob_sums, const Tensor& dscores);

}  // namespace fathom::kernels
