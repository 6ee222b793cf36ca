#pragma once

#include "autograd/tape.h"
#include "comm/communicator.h"

// Collectives of tensor parallelism as operations on the tape (f and g of Shoeybi et al., 2019,
// section 3). A null communicator or one of size 1 makes each the identity.

namespace fathom::comm {

/// In place over the group; collective; blocks.
void all_reduce(Communicator& group, const Tensor& tensor, ReduceOp op);

/// Forward: the identity. Backward: the sum of the gradient over the group. Put in front of a layer
/// whose weight is split by columns. Where the group sums beside kernels, the layer's gradients of
/// its parameters are made meanwhile (Var::later).
autograd::Var copy_to_group(autograd::Tape* tape, Communicator* group, const autograd::Var& x);

/// Forward: the sum over the group, in place. Backward: the identity. Put behind a layer whose
/// weight is split by rows.
autograd::Var sum_over_group(autograd::Tape* tape, Communicator* group, const autograd::Var& x);

}  // namespace fathom::comm
