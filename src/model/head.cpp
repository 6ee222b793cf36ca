#include "model/head.h"

#include <algorithm>

#include "comm/differentiable.h"

namespace fathom::model {

using autograd::Var;
using kernels::Trans;

LossSums& LossSums::operator+=(const LossSums& other) {
  cross_entropy += other.cross_entropy;
  forward_kl += other.forward_kl;
  correct += other.correct;
  tokens += other.tokens;
  return *this;
}

namespace {

bool spread(const comm::Communicator* tp) {
  return tp != nullptr && tp->size() > 1;
}

// Buffers of one chunk, reused by all of them.
struct Workspace {
  Tensor student, teacher, maxima, sums;
};

kernels::LogitChunk compute_logits(const HeadLoss& options, const HeadInput& student,
                                   const HeadInput& teacher, const Tensor& labels,
                                   std::int64_t begin, std::int64_t rows, const Workspace& work) {
  kernels::LogitChunk chunk;
  chunk.labels = labels.slice_rows(begin, rows);
  chunk.first_id = options.first_vocab;
  const auto product = [&](const HeadInput& input, const Tensor& buffer) {
    const Tensor logits = buffer.slice_rows(0, rows);
    kernels::gemm(input.states.value.slice_rows(begin, rows), Trans::no, input.head->value,
                  Trans::yes, logits);
    return logits;
  };
  chunk.student = product(student, work.student).slice_columns(0, options.vocab);
  if (teacher.head != nullptr)
    chunk.teacher = product(teacher, work.teacher).slice_columns(0, options.vocab);
  return chunk;
}

void compute_loss(comm::Communicator* tp, const HeadLoss& options, const kernels::LogitChunk& chunk,
                  const Workspace& work, const Tensor& results, bool gradient) {
  if (!spread(tp)) {
    kernels::loss_whole(options.loss, chunk, results, gradient);
    return;
  }
  const std::int64_t rows = chunk.student.rows();
  const Tensor maxima = work.maxima.slice_rows(0, rows), sums = work.sums.slice_rows(0, rows);
  kernels::loss_maxima(chunk, maxima);
  comm::all_reduce(*tp, maxima, comm::ReduceOp::max);
  kernels::loss_sums(options.loss, chunk, maxima, sums);
  comm::all_reduce(*tp, sums, comm::ReduceOp::sum);
  kernels::loss_gradient(options.loss, chunk, maxima, sums, results, gradient);
}

// d states and d head of one chunk whose logits have been replaced by their gradient.
void accumulate_gradients(const HeadInput& student, const kernels::LogitChunk& chunk,
                          const Tensor& dstates, std::int64_t begin) {
  const std::int64_t rows = chunk.student.rows();
  const Tensor head = student.head->value.slice_rows(0, chunk.student.columns());
  if (dstates.defined())
    kernels::gemm(chunk.student, Trans::no, head, Trans::no, dstates.slice_rows(begin, rows));
  if (student.head->slot) {
    const Tensor dhead =
        student.head->slot->sum_target(dstates.device(), student.head->value.shape());
    kernels::gemm(chunk.student, Trans::yes, student.states.value.slice_rows(begin, rows),
                  Trans::no, dhead.slice_rows(0, chunk.student.columns()), 1.0f, 1.0f);
  }
}

LossSums sum_results(const Tensor& results) {
  LossSums sums;
  sums.tokens = results.rows();
  const std::vector<float> values = to_host(results);
  for (std::size_t at = 0; at < values.size(); at += kernels::kLossResults) {
    sums.cross_entropy += values[at + kernels::kCrossEntropy];
    sums.forward_kl += values[at + kernels::kForwardKl];
    sums.correct += values[at + kernels::kCorrect] > 0.5f ? 1 : 0;
  }
  return sums;
}

// Rows of a chunk, so that all chunks of m rows are about equal and none has more than `most`.
std::int64_t even_chunk(std::int64_t m, std::int64_t most) {
  constexpr std::int64_t kUnit = 8;
  const std::int64_t chunks = (m + most - 1) / most;
  const std::int64_t even = (m + chunks - 1) / chunks;
  return std::min({(even + kUnit - 1) / kUnit * kUnit, most, m});
}

}  // namespace

LossSums head_loss(autograd::Tape* tape, comm::Communicator* tp, const HeadLoss& options,
                   const HeadInput& student, const HeadInput& teacher, const Tensor& labels) {
  const std::int64_t m = student.states.value.rows();
  if (m == 0) return {};
  Device& device = student.states.value.device();
  const std::int64_t chunk_rows = even_chunk(m, options.chunk_rows);
  Workspace work;
  work.student = Tensor::empty(device, {chunk_rows, student.head->value.rows()});
  if (teacher.head != nullptr)
    work.teacher = Tensor::empty(device, {chunk_rows, teacher.head->value.rows()});
  if (spread(tp)) {
    work.maxima = Tensor::empty(device, {chunk_rows, kernels::kLossMaxima});
    work.sums = Tensor::empty(device, {chunk_rows, kernels::kLossSums});
  }
  const Tensor results = Tensor::empty(device, {m, kernels::kLossResults});
  const bool gradient =
      tape != nullptr && (student.states.needs_grad() || student.head->needs_grad());
  const Tensor dstates = gradient ? Tensor::empty(device, student.states.value.shape()) : Tensor();
  for (std::int64_t begin = 0; begin < m; begin += chunk_rows) {
    const std::int64_t rows = std::min(chunk_rows, m - begin);
    const auto chunk = compute_logits(options, student, teacher, labels, begin, rows, work);
    compute_loss(tp, options, chunk, work, results.slice_rows(begin, rows), gradient);
    if (gradient) accumulate_gradients(student, chunk, dstates, begin);
  }
  if (gradient && student.states.needs_grad()) {
    if (spread(tp)) comm::all_reduce(*tp, dstates, comm::ReduceOp::sum);
    student.states.slot->add(dstates);
  }
  return sum_results(results);
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
