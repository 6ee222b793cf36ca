#include "model/head.h"

#include <algorithm>

#include "comm/differentiable.h"
#include "model/chunk_loss.h"

namespace fathom::model {

using autograd::Var;
using kernels::Trans;

LossSums& LossSums::operator+=(const LossSums& other) {
  cross_entropy += other.cross_entropy;
  divergence += other.divergence;
  objective += other.objective;
  correct += other.correct;
  tokens += other.tokens;
  return *this;
}

namespace {

bool spread(const comm::Communicator* tp) {
  return tp != nullptr && tp->size() > 1;
}

// Logits of one chunk, reused by all of them, and the heads that all are made with.
struct Workspace {
  Tensor student, teacher;
  Tensor student_head, teacher_head;
};

kernels::LogitChunk compute_logits(const HeadLoss& options, const HeadInput& student,
                                   const HeadInput& teacher, const Tensor& labels,
                                   std::int64_t begin, std::int64_t rows, const Workspace& work) {
  kernels::LogitChunk chunk;
  chunk.labels = labels.slice_rows(begin, rows);
  chunk.first_id = options.first_vocab;
  if (options.row_weights) chunk.row_weights = options.row_weights.slice_rows(begin, rows);
  if (options.row_alpha) chunk.row_alpha = options.row_alpha.slice_rows(begin, rows);
  const auto product = [&](const HeadInput& input, const Tensor& head, const Tensor& buffer) {
    const Tensor logits = buffer.slice_rows(0, rows);
    kernels::gemm(input.states.value.slice_rows(begin, rows), Trans::no, head, Trans::yes, logits);
    return logits;
  };
  chunk.student = product(student, work.student_head, work.student);
  if (teacher.head != nullptr) chunk.teacher = product(teacher, work.teacher_head, work.teacher);
  return chunk;
}

// d states and d head of one chunk whose logits have been replaced by their gradient.
void accumulate_gradients(const HeadInput& student, const kernels::LogitChunk& chunk,
                          const Tensor& head, const Tensor& dstates, std::int64_t begin) {
  const std::int64_t rows = chunk.student.rows();
  const Tensor dlogits = kernels::as_factor(chunk.student);
  if (dstates.defined())
    kernels::gemm(dlogits, Trans::no, head, Trans::no, dstates.slice_rows(begin, rows));
  if (student.head->slot) {
    const Tensor dhead =
        student.head->slot->sum_target(dstates.device(), student.head->value.shape());
    kernels::gemm(dlogits, Trans::yes, student.states.value.slice_rows(begin, rows), Trans::no,
                  dhead.slice_rows(0, chunk.student.columns()), 1.0f, 1.0f);
  }
}

LabelLogProbs take_label_log_probs(const std::vector<float>& results) {
  LabelLogProbs found;
  for (std::size_t at = 0; at < results.size(); at += kernels::kLossResults) {
    found.student.push_back(-results[at + kernels::kCrossEntropy]);
    found.teacher.push_back(-results[at + kernels::kTeacherCrossEntropy]);
  }
  return found;
}

}  // namespace

LossSums sum_results(const std::vector<float>& results) {
  LossSums sums;
  for (std::size_t at = 0; at < results.size(); at += kernels::kLossResults) {
    sums.cross_entropy += results[at + kernels::kCrossEntropy];
    sums.divergence += results[at + kernels::kDivergence];
    sums.objective += results[at + kernels::kObjective];
    sums.correct += results[at + kernels::kCorrect] > 0.5f ? 1 : 0;
    ++sums.tokens;
  }
  return sums;
}

std::int64_t even_chunk(std::int64_t m, std::int64_t most) {
  constexpr std::int64_t kUnit = 8;
  const std::int64_t chunks = (m + most - 1) / most;
  const std::int64_t even = (m + chunks - 1) / chunks;
  return std::min({(even + kUnit - 1) / kUnit * kUnit, most, m});
}

Tensor head_losses(autograd::Tape* tape, comm::Communicator* tp, const HeadLoss& options,
                   const HeadInput& student, const HeadInput& teacher, const Tensor& labels) {
  const std::int64_t m = student.states.value.rows();
  if (m == 0) return {};
  Device& device = student.states.value.device();
  const std::int64_t chunk_rows = even_chunk(m, options.chunk_rows);
  const auto factor = [&](const HeadInput& input) {
    return kernels::as_factor(input.head->value.slice_rows(0, options.vocab));
  };
  Workspace work{.student = Tensor::empty(device, {chunk_rows, options.vocab}),
                 .teacher = {},
                 .student_head = factor(student),
                 .teacher_head = {}};
  if (teacher.head != nullptr) {
    work.teacher = Tensor::empty(device, {chunk_rows, options.vocab});
    work.teacher_head = factor(teacher);
  }
  const ChunkLoss chunk_loss(device, tp, chunk_rows);
  const Tensor results = Tensor::empty(device, {m, kernels::kLossResults});
  const bool gradient =
      tape != nullptr && (student.states.needs_grad() || student.head->needs_grad());
  const Tensor dstates = gradient ? Tensor::empty(device, student.states.value.shape()) : Tensor();
  for (std::int64_t begin = 0; begin < m; begin += chunk_rows) {
    const std::int64_t rows = std::min(chunk_rows, m - begin);
    const auto chunk = compute_logits(options, student, teacher, labels, begin, rows, work);
    chunk_loss.run(options.loss, chunk, results.slice_rows(begin, rows), gradient);
    if (gradient) accumulate_gradients(student, chunk, work.student_head, dstates, begin);
  }
  if (gradient && student.states.needs_grad()) {
    if (spread(tp)) comm::all_reduce(*tp, dstates, comm::ReduceOp::sum);
    student.states.slot->add(dstates);
  }
  return results;
}

LossSums head_loss(autograd::Tape* tape, comm::Communicator* tp, const HeadLoss& options,
                   const HeadInput& student, const HeadInput& teacher, const Tensor& labels,
                   LabelLogProbs* label_log_probs) {
  if (label_log_probs != nullptr) *label_log_probs = {};
  HeadLoss asked = options;
  asked.loss.teacher_cross_entropy = label_log_probs != nullptr;
  const Tensor results = head_losses(tape, tp, asked, student, teacher, labels);
  if (!results.defined()) return {};
  const std::vector<float> rows = to_host(results);
  if (label_log_probs != nullptr) *label_log_probs = take_label_log_probs(rows);
  return sum_results(rows);
}

void for_each_logits(
    const Stage& stage, const Tensor& states, std::int64_t chunk_rows,
    const std::function<void(std::int64_t, std::int64_t, const std::vector<float>&)>& consume) {
  comm::Communicator* tp = stage.tp();
  const std::int64_t vocab = stage.spec().vocab, first = stage.plan().shard.first_vocab;
  const Tensor& head = stage.head().value;
  for (std::int64_t begin = 0; begin < states.rows(); begin += chunk_rows) {
    const std::int64_t rows = std::min(chunk_rows, states.rows() - begin);
    const Tensor part = states.slice_rows(begin, rows);
    const Tensor logits = Tensor::empty(states.device(), {rows, vocab});
    if (spread(tp)) kernels::fill(logits, 0.0f);
    kernels::gemm(part, Trans::no, head, Trans::yes, logits.slice_columns(first, head.rows()));
    if (spread(tp)) comm::all_reduce(*tp, logits, comm::ReduceOp::sum);
    consume(begin, rows, to_host(logits));
  }
}

}  // namespace fathom::model
