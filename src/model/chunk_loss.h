#pragma once

#include "comm/communicator.h"
#include "kernels/loss.h"

namespace fathom::model {

/// The token losses of chunks of rows whose vocabulary may be spread over tensor ranks; holds the
/// statistics that these exchange.
class ChunkLoss {
 public:
  /// Chunks have at most `chunk_rows` rows; tp may be null and must outlive the object.
  ChunkLoss(Device& device, comm::Communicator* tp, std::int64_t chunk_rows);

  /// Writes results [rows, kLossResults] and, if `gradient`, replaces the student's logits by the
  /// gradient of the objective; equal results on every tensor rank. Collective over tp.
  void run(const kernels::TokenLoss& loss, const kernels::LogitChunk& chunk, const Tensor& results,
           bool gradient) const;

 private:
  comm::Communicator* tp_;  // null unless there are several ranks
  Tensor maxima_, sums_, divergences_;
};

}  // namespace fathom::model
