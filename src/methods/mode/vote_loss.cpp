#include "methods/mode/vote_loss.h"

#include <algorithm>

#include "comm/differentiable.h"
#include "kernels/mixture.h"
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
};

// The losses of one micro-batch, chunk by chunk; buffers are those of one chunk.
class Chunks {
 public:
  Chunks(comm::Communicator* tp, const VoteLoss& options, const Votes& votes, const Var& head,
         const model::HeadInput& teacher, std::int64_t rows)
      : tp_(tp != nullptr && tp->size() > 1 ? tp : nullptr),
        options_(options),
        votes_(votes),
        head_(head),
        teacher_(teacher),
        loss_(head.value.device(), tp, rows) {
    Device& device = head.value.device();
    const Shape shape{rows, options.head.vocab};
    for (std::size_t j = 0; j < votes.experts.size(); ++j)
      experts_.push_back(Tensor::empty(device, shape));
    mixture_ = Tensor::empty(device, shape);
    head_factor_ = kernels::as_factor(head.value.slice_rows(0, options.head.vocab));
    if (teacher.head != nullptr) {
      teacher_logits_ = Tensor::empty(device, shape);
      teacher_factor_ = kernels::as_factor(teacher.head->value.slice_rows(0, options.head.vocab));
    }
    dots_ = Tensor::empty(device, {rows, votes.weights.value.columns()});
  }

  // Results of the task and of the distillation for the rows [begin, begin + rows).
  void run(std::int64_t begin, std::int64_t rows, const Tensor& labels, const Tensor& task,
           const Tensor& distill, bool gradient, const Gradients& into) {
    std::vector<Tensor> logits;
    for (std::size_t j = 0; j < experts_.size(); ++j)
      logits.push_back(product(votes_.experts[j], head_factor_, experts_[j], begin, rows));
    const Tensor weights = votes_.weights.value.slice_rows(begin, rows);
    kernels::LogitChunk mixed = chunk(mixture_.slice_rows(0, rows), labels, begin, rows);
    for (std::size_t j = 0; j < logits.size(); ++j)
      kernels::weigh_rows(logits[j], weights, static_cast<std::int64_t>(j), mixed.student, j > 0);
    if (teacher_logits_)
      mixed.teacher = product(teacher_.states, teacher_factor_, teacher_logits_, begin, rows);
    loss_.run(options_.head.loss, mixed, task.slice_rows(begin, rows), gradient);
    const Tensor dots = dots_.slice_rows(0, rows);
    if (into.weights)  // while the logits last: the distillation puts gradients in their place
      for (std::size_t j = 0; j < logits.size(); ++j)
        kernels::row_dots(mixed.student, logits[j], dots, static_cast<std::int64_t>(j));
    distil(logits, labels, begin, rows, distill, gradient);
    if (!gradient) return;
    for (std::size_t j = 0; j < logits.size(); ++j) {
      const bool last = j + 1 == logits.size();  // teaches, and is not taught
      kernels::weigh_rows(mixed.student, weights, static_cast<std::int64_t>(j), logits[j], !last);
      accumulate(j, logits[j], begin, rows, into);
    }
    if (!into.weights) return;
    if (tp_ != nullptr) comm::all_reduce(*tp_, dots, comm::ReduceOp::sum);
    kernels::copy(dots, into.weights.slice_rows(begin, rows));
  }

 private:
  Tensor product(const Var& states, const Tensor& head, const Tensor& buffer, std::int64_t begin,
                 std::int64_t rows) const {
    const Tensor logits = buffer.slice_rows(0, rows);
    kernels::gemm(states.value.slice_rows(begin, rows), Trans::no, head, Trans::yes, logits);
    return logits;
  }

  kernels::LogitChunk chunk(const Tensor& student, const Tensor& labels, std::int64_t begin,
                            std::int64_t rows) const {
    kernels::LogitChunk made;
    made.student = student;
    made.labels = labels.slice_rows(begin, rows);
    made.first_id = options_.head.first_vocab;
    if (options_.head.row_weights)
      made.row_weights = options_.head.row_weights.slice_rows(begin, rows);
    if (options_.head.row_alpha) made.row_alpha = options_.head.row_alpha.slice_rows(begin, rows);
    return made;
  }

  // The forward KL of each layer but the last, whose logits it leaves as they are.
  void distil(const std::vector<Tensor>& logits, const Tensor& labels, std::int64_t begin,
              std::int64_t rows, const Tensor& results, bool gradient) const {
    const kernels::TokenLoss loss{
        .ce_weight = 0, .kd_weight = options_.distill_weight, .temperature = options_.temperature};
    const std::int64_t m = results.rows() / static_cast<std::int64_t>(logits.size() - 1);
    for (std::size_t j = 0; j + 1 < logits.size(); ++j) {
      kernels::LogitChunk pair = chunk(logits[j], labels, begin, rows);
      pair.teacher = logits.back();
      pair.row_weights = {};  // a mean over tokens, whatever the task's is
      loss_.run(loss, pair, results.slice_rows(static_cast<std::int64_t>(j) * m + begin, rows),
                gradient);
    }
  }

  void accumulate(std::size_t j, const Tensor& gradient, std::int64_t begin, std::int64_t rows,
                  const Gradients& into) const {
    const Tensor dlogits = kernels::as_factor(gradient);
    if (into.experts[j])
      kernels::gemm(dlogits, Trans::no, head_factor_, Trans::no,
                    into.experts[j].slice_rows(begin, rows));
    if (!head_.slot) return;
    const Tensor dhead = head_.slot->sum_target(dlogits.device(), head_.value.shape());
    kernels::gemm(dlogits, Trans::yes, votes_.experts[j].value.slice_rows(begin, rows), Trans::no,
                  dhead.slice_rows(0, options_.head.vocab), 1.0f, 1.0f);
  }

  comm::Communicator* tp_;
  const VoteLoss& options_;
  const Votes& votes_;
  const Var& head_;
  const model::HeadInput& teacher_;
  model::ChunkLoss loss_;
  std::vector<Tensor> experts_;
  Tensor mixture_, teacher_logits_, dots_;
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

// Each expert's gradient is a sum over the vocabulary's ranks; the weights' has been reduced.
void hand_on(comm::Communicator* tp, const Votes& votes, const Gradients& gradients) {
  for (std::size_t j = 0; j < votes.experts.size(); ++j) {
    if (!gradients.experts[j]) continue;
    if (tp != nullptr && tp->size() > 1)
      comm::all_reduce(*tp, gradients.experts[j], comm::ReduceOp::sum);
    votes.experts[j].slot->add(gradients.experts[j]);
  }
  if (gradients.weights) votes.weights.slot->add(gradients.weights);
}

}  // namespace

VoteSums vote_loss(Tape* tape, comm::Communicator* tp, const VoteLoss& options, const Votes& votes,
                   const Var& head, const model::HeadInput& teacher, const Tensor& labels) {
  const auto k = static_cast<std::int64_t>(votes.experts.size());
  FATHOM_CHECK(k > 1 && votes.weights.value.columns() == k, k, " late layers with weights ",
               to_string(votes.weights.value.shape()));
  const std::int64_t m = labels.elements();
  if (m == 0) return {};
  Device& device = labels.device();
  const Gradients gradients = make_gradients(tape, votes);
  const bool gradient =
      tape != nullptr && (head.needs_grad() || gradients.weights ||
                          std::any_of(gradients.experts.begin(), gradients.experts.end(),
                                      [](const Tensor& tensor) { return tensor.defined(); }));
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
  return {model::sum_results(to_host(task)), model::sum_results(to_host(distill)).objective};
}

}  // namespace fathom::methods::mode
