#include "methods/mode/vote_loss.h"

#include <algorithm>

#include "comm/differentiable.h"
#include "kernels/mixture.h"
#include "kernels/vote.h"
#include "model/chunk_loss.h"

namespace fathom::methods::mode {

using autograd::Tape;
using autograd::Var;
using kernels::Trans;

namespace {

// Gradients of one micro-batch; undefined where nothing is trained.
struct Gradients {
  std::vector<Tensor> experts;
  Tensor weights;

  bool any() const {
    return weights || std::any_of(experts.begin(), experts.end(),
                                  [](const Tensor& tensor) { return tensor.defined(); });
  }
};

// The losses of one micro-batch, chunk by chunk; buffers are those of one chunk. States, logits and
// gradients lie in blocks of the chunk's rows: the mixture's, the taught layers', the last layer's.
// Logits are then one product for all layers, and so are gradients, which the last layer's logits
// have none of: each reads the head once a chunk.
class Chunks {
 public:
  Chunks(comm::Communicator* tp, const VoteLoss& options, const Votes& votes, const Var& head,
         const model::HeadInput& teacher, std::int64_t rows)
      : spread_(tp != nullptr && tp->size() > 1),
        k_(static_cast<std::int64_t>(votes.experts.size())),
        options_(options),
        votes_(votes),
        head_(head),
        teacher_(teacher),
        loss_(head.value.device(), tp, rows) {
    Device& device = head.value.device();
    const std::int64_t width = head.value.columns(), vocab = options.head.vocab;
    states_ = Tensor::empty(device, {(k_ + 1) * rows, width});
    logits_ = Tensor::empty(device, {(k_ + 1) * rows, vocab});
    dstates_ = Tensor::empty(device, {k_ * rows, width});
    head_factor_ = kernels::as_factor(head.value.slice_rows(0, vocab));
    if (teacher.head == nullptr) return;
    teacher_logits_ = Tensor::empty(device, {rows, vocab});
    teacher_factor_ = kernels::as_factor(teacher.head->value.slice_rows(0, vocab));
  }

  // Results of the task and of the distillation for the rows [begin, begin + rows).
  void run(std::int64_t begin, std::int64_t rows, const Tensor& labels, const Tensor& task,
           const Tensor& distill, bool gradient, const Gradients& into) {
    for (std::int64_t j = 0; j < k_; ++j)
      kernels::copy(expert(j).value.slice_rows(begin, rows), block(states_, 1 + j, rows));
    kernels::gemm(states_.slice_rows(rows, k_ * rows), Trans::no, head_factor_, Trans::yes,
                  logits_.slice_rows(rows, k_ * rows));
    const Tensor weights = votes_.weights.value.slice_rows(begin, rows);
    vote(weights, labels.slice_rows(begin, rows),
         distill.slice_rows((k_ - 1) * begin, (k_ - 1) * rows), gradient);
    loss_.run(options_.head.loss, mixture(labels, begin, rows), task.slice_rows(begin, rows),
              gradient);
    if (!gradient) return;
    const Tensor dlogits = kernels::as_factor(logits_.slice_rows(0, k_ * rows));
    if (into.any()) {
      kernels::gemm(dlogits, Trans::no, head_factor_, Trans::no, dstates_.slice_rows(0, k_ * rows));
      hand_out(weights, begin, rows, into);
    }
    if (!head_.slot) return;
    mix(states_, weights, rows);
    const Tensor dhead = head_.slot->sum_target(dlogits.device(), head_.value.shape());
    kernels::gemm(dlogits, Trans::yes, states_.slice_rows(0, k_ * rows), Trans::no,
                  dhead.slice_rows(0, options_.head.vocab), 1.0f, 1.0f);
  }

 private:
  const Var& expert(std::int64_t j) const { return votes_.experts[static_cast<std::size_t>(j)]; }

  static Tensor block(const Tensor& blocks, std::int64_t index, std::int64_t rows) {
    return blocks.slice_rows(index * rows, rows);
  }

  // The first block is made from the layers' after it.
  void mix(const Tensor& blocks, const Tensor& weights, std::int64_t rows) const {
    for (std::int64_t j = 0; j < k_; ++j)
      kernels::weigh_rows(block(blocks, 1 + j, rows), weights, j, block(blocks, 0, rows), j > 0);
  }

  // The mixture's logits, and the distillation, whose gradients replace those of the taught layers.
  void vote(const Tensor& weights, const Tensor& labels, const Tensor& results,
            bool gradient) const {
    const kernels::TokenLoss loss{
        .ce_weight = 0, .kd_weight = options_.distill_weight, .temperature = options_.temperature};
    const std::int64_t rows = weights.rows();
    if (!spread_) {
      kernels::vote(loss, logits_.slice_rows(0, (k_ + 1) * rows), weights, labels, results,
                    gradient);
      return;
    }
    mix(logits_, weights, rows);
    for (std::int64_t j = 0; j + 1 < k_; ++j)
      loss_.run(loss,
                {.student = block(logits_, 1 + j, rows),
                 .teacher = block(logits_, k_, rows),
                 .labels = labels,
                 .first_id = options_.head.first_vocab},
                block(results, j, rows), gradient);
  }

  // What the task sees; with the teacher's logits where there is one.
  kernels::LogitChunk mixture(const Tensor& labels, std::int64_t begin, std::int64_t rows) const {
    kernels::LogitChunk made{.student = block(logits_, 0, rows),
                             .teacher = {},
                             .labels = labels.slice_rows(begin, rows),
                             .first_id = options_.head.first_vocab};
    const model::HeadLoss& head = options_.head;
    if (head.row_weights) made.row_weights = head.row_weights.slice_rows(begin, rows);
    if (head.row_alpha) made.row_alpha = head.row_alpha.slice_rows(begin, rows);
    if (!teacher_logits_) return made;
    made.teacher = teacher_logits_.slice_rows(0, rows);
    kernels::gemm(teacher_.states.value.slice_rows(begin, rows), Trans::no, teacher_factor_,
                  Trans::yes, made.teacher);
    return made;
  }

  // The head is linear: with h the mixture's gradient, layer j gets G_j h beside its distillation's
  // gradient, and its weight gets h x_j.
  void hand_out(const Tensor& weights, std::int64_t begin, std::int64_t rows,
                const Gradients& into) const {
    const Tensor h = block(dstates_, 0, rows);
    for (std::int64_t j = 0; j < k_; ++j) {
      if (into.weights)
        kernels::row_dots(h, block(states_, 1 + j, rows), into.weights.slice_rows(begin, rows), j);
      const Tensor& all = into.experts[static_cast<std::size_t>(j)];
      if (!all) continue;
      const Tensor target = all.slice_rows(begin, rows);
      const bool taught = j + 1 < k_;
      if (taught) kernels::copy(block(dstates_, 1 + j, rows), target);
      kernels::weigh_rows(h, weights, j, target, taught);
    }
  }

  bool spread_;  // whether the vocabulary lies on several ranks
  std::int64_t k_;
  const VoteLoss& options_;
  const Votes& votes_;
  const Var& head_;
  const model::HeadInput& teacher_;
  model::ChunkLoss loss_;
  Tensor states_, logits_, dstates_, teacher_logits_;
  Tensor head_factor_, teacher_factor_;  // for the products of all chunks
};

Gradients make_gradients(const Tape* tape, const Votes& votes) {
  Gradients made;
  const auto like = [&](const Var& var) {
    return tape != nullptr && var.needs_grad()
               ? Tensor::empty(var.value.device(), var.value.shape())
               : Tensor();
  };
  for (const Var& expert : votes.experts) made.experts.push_back(like(expert));
  made.weights = like(votes.weights);
  return made;
}

// The gradients so far are those of this rank's part of the vocabulary.
void hand_on(comm::Communicator* tp, const Votes& votes, const Gradients& gradients) {
  const auto add = [&](const Var& var, const Tensor& gradient) {
    if (!gradient) return;
    if (tp != nullptr && tp->size() > 1) comm::all_reduce(*tp, gradient, comm::ReduceOp::sum);
    var.slot->add(gradient);
  };
  for (std::size_t j = 0; j < votes.experts.size(); ++j)
    add(votes.experts[j], gradients.experts[j]);
  add(votes.weights, gradients.weights);
}

}  // namespace

VoteResults vote_losses(Tape* tape, comm::Communicator* tp, const VoteLoss& options,
                        const Votes& votes, const Var& head, const model::HeadInput& teacher,
                        const Tensor& labels) {
  const auto k = static_cast<std::int64_t>(votes.experts.size());
  FATHOM_CHECK(k > 1 && votes.weights.value.columns() == k, k, " late layers with weights ",
               to_string(votes.weights.value.shape()));
  const std::int64_t m = labels.elements();
  if (m == 0) return {};
  Device& device = labels.device();
  const Gradients gradients = make_gradients(tape, votes);
  const bool gradient = tape != nullptr && (head.needs_grad() || gradients.any());
  const Tensor task = Tensor::empty(device, {m, kernels::kLossResults});
  const Tensor distill = Tensor::empty(device, {(k - 1) * m, kernels::kLossResults});
  const std::int64_t chunk_rows = model::even_chunk(m, options.head.chunk_rows);
  {
    Chunks chunks(tp, options, votes, head, teacher, chunk_rows);
    for (std::int64_t begin = 0; begin < m; begin += chunk_rows)
      chunks.run(begin, std::min(chunk_rows, m - begin), labels, task, distill, gradient,
                 gradients);
  }
  hand_on(tp, votes, gradients);
  return {task, distill};
}

VoteSums vote_loss(Tape* tape, comm::Communicator* tp, const VoteLoss& options, const Votes& votes,
                   const Var& head, const model::HeadInput& teacher, const Tensor& labels) {
  const VoteResults results = vote_losses(tape, tp, options, votes, head, teacher, labels);
  if (!results.task.defined()) return {};
  return {model::sum_results(to_host(results.task)),
          model::sum_results(to_host(results.distill)).objective};
}

}  // namespace fathom::methods::mode
