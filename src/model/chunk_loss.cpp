#include "model/chunk_loss.h"

#include "comm/differentiable.h"

namespace fathom::model {

ChunkLoss::ChunkLoss(Device& device, comm::Communicator* tp, std::int64_t chunk_rows)
    : tp_(tp != nullptr && tp->size() > 1 ? tp : nullptr) {
  if (tp_ == nullptr) return;
  maxima_ = Tensor::empty(device, {chunk_rows, kernels::kLossMaxima});
  sums_ = Tensor::empty(device, {chunk_rows, kernels::kLossSums});
  divergences_ = Tensor::empty(device, {chunk_rows, kernels::kDivergenceSums});
}

void ChunkLoss::run(const kernels::TokenLoss& loss, const kernels::LogitChunk& chunk,
                    const Tensor& results, bool gradient) const {
  if (tp_ == nullptr) {
    kernels::loss_whole(loss, chunk, results, gradient);
    return;
  }
  const std::int64_t rows = chunk.student.rows();
  const Tensor maxima = maxima_.slice_rows(0, rows), sums = sums_.slice_rows(0, rows);
  kernels::loss_maxima(loss, chunk, maxima);
  comm::all_reduce(*tp_, maxima, comm::ReduceOp::max);
  kernels::loss_sums(loss, chunk, maxima, sums);
  comm::all_reduce(*tp_, sums, comm::ReduceOp::sum);
  Tensor divergences;
  if (kernels::two_stage(loss, chunk)) {
    divergences = divergences_.slice_rows(0, rows);
    kernels::loss_divergences(loss, chunk, maxima, sums, divergences, gradient);
    comm::all_reduce(*tp_, divergences, comm::ReduceOp::sum);
  }
  kernels::loss_gradient(loss, chunk, maxima, sums, divergences, results, gradient);
}

}  // namespace fathom::model
