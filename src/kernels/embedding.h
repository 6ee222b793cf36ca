#pragma once

#include "core/tensor.h"

namespace fathom::kernels {

/// out[r, :] (= or +=, by `accumulate`) table[ids[r] - first_id, :]; rows whose id is outside the
/// table's [first_id, first_id + rows) count as zero: those belong to another rank. table may be
/// bf16.
void embedding_forward(const Tensor& table, std::int64_t first_id, const Tensor& ids,
                       bool accumulate, const Tensor& out);

/// dtable[ids[r] - first_id, :] += dout[r, :], in the order of r whatever the number of threads.
void embedding_backward(const Tensor& dout, std::int64_t first_id, const Tensor& ids,
                        const Tensor& dtable);

}  // namespace fathom::kernels
