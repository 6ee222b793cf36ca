#pragma once

#include <vector>

#include "kernels/loss.h"
#include "model/stage.h"

namespace fathom::model {

/// Sums over supervised tokens of one micro-batch; identical on every tensor rank.
struct LossSums {
  double cross_entropy = 0;  ///< nats
  double divergence = 0;     ///< nats, at the loss's temperature; 0 without a teacher
  double objective = 0;      ///< weighted: what the gradient is of
  std::int64_t correct = 0;  ///< tokens whose label has the largest logit
  std::int64_t tokens = 0;

  LossSums& operator+=(const LossSums& other);
};

/// Sums of results [m, kernels::kLossResults] in row-major order.
LossSums sum_results(const std::vector<float>& results);

/// Rows of a chunk of m > 0, so that all chunks are about equal and none has more than `most`.
std::int64_t even_chunk(std::int64_t m, std::int64_t most);

/// What the head multiplies, for the supervised rows of a micro-batch.
struct HeadInput {
  autograd::Var states;                 ///< [m, embed_dim] after the final norm
  const autograd::Var* head = nullptr;  ///< [vocab on this rank, embed_dim]
};

/// log p(label) of every supervised row, at temperature 1; equal on every tensor rank.
struct LabelLogProbs {
  std::vector<float> student, teacher;
};

struct HeadLoss {
  kernels::TokenLoss loss;        ///< weights already divided by the step's global denominators
  std::int64_t first_vocab = 0;   ///< first vocabulary entry of this rank
  std::int64_t vocab = 0;         ///< entries that count, of this rank: both models have them
  std::int64_t chunk_rows = 256;  ///< at most so many rows of logits at a time
  Tensor row_weights = {};        ///< as in kernels::LogitChunk, of all m rows; may be undefined
  Tensor row_alpha = {};          ///< likewise
};

/// The head's GEMM and the token losses, fused: logits exist for chunk_rows rows at a time and
/// never for a whole micro-batch. With a tape, the gradient of the objective of kernels::TokenLoss,
/// summed over tokens, goes to the head's slot and, when the tape is played back, to the states.
/// Entries beyond options.vocab, which pad a head or exist in one model only, are cut off before
/// the softmax and get no gradient. Collective over tp, which may be null. labels are i32 [m], all
/// supervised. `teacher.head` may be null. Returns what kernels/loss.h says of every row, [m,
/// kernels::kLossResults], for sum_results(); undefined for no rows. The host does not wait.
Tensor head_losses(autograd::Tape* tape, comm::Communicator* tp, const HeadLoss& options,
                   const HeadInput& student, const HeadInput& teacher, const Tensor& labels);

/// The same, and waits for the sums. `label_log_probs` is filled if given; it needs a teacher.
LossSums head_loss(autograd::Tape* tape, comm::Communicator* tp, const HeadLoss& options,
                   const HeadInput& student, const HeadInput& teacher, const Tensor& labels,
                   LabelLogProbs* label_log_probs = nullptr);

/// All logits of the given states [m, vocab of the model], on the host, row by row, chunk by chunk:
/// `consume(first_row, rows, values)`. For parity checks and scoring; collective over tp.
void for_each_logits(
    const Stage& stage, const Tensor& states, std::int64_t chunk_rows,
    const std::function<void(std::int64_t, std::int64_t, const std::vector<float>&)>& consume);

}  // namespace fathom::model
