#include "methods/distill/fdd.h"

#include <algorithm>

#include "comm/differentiable.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "model/head.h"

namespace fathom::methods::distill {

using autograd::Tape;
using autograd::Var;
using kernels::Trans;

namespace {

void check(const FddOptions& options, const KeyLayerStates& student,
           const KeyLayerStates& teacher) {
  const std::size_t layers = student.states.size();
  FATHOM_CHECK(layers > 0 && layers == teacher.states.size(), "FDD of ", layers, " layers against ",
               teacher.states.size());
  for (std::size_t k = 0; k < layers; ++k)
    FATHOM_CHECK(student.states[k].value.rows() == student.states[0].value.rows() &&
                     teacher.states[k].value.rows() == student.states[0].value.rows(),
                 "states of different rows at key layer ", k);
  FATHOM_CHECK(
      options.vocab <= student.head->value.rows() && options.vocab <= teacher.head->value.rows(),
      options.vocab, " entries of heads ", to_string(student.head->value.shape()), " and ",
      to_string(teacher.head->value.shape()));
  require(layers > 1 || options.loss.derivative_weight == 0, ErrorKind::config,
          "fdd.derivative_weight: the derivative is taken between key layers, and there is only "
          "one; name two or more in fdd.student_layers, or set the weight to 0");
}

// The terms of one micro-batch, chunk by chunk; buffers are those of one chunk.
class Dynamics {
 public:
  Dynamics(comm::Communicator* tp, const FddOptions& options, const KeyLayerStates& student,
           const KeyLayerStates& teacher, std::int64_t chunk_rows)
      : tp_(tp != nullptr && tp->size() > 1 ? tp : nullptr),
        options_(options),
        student_(student),
        teacher_(teacher),
        layers_(static_cast<std::int64_t>(student.states.size())),
        device_(student.states[0].value.device()) {
    student_head_ = kernels::as_factor(student.head->value.slice_rows(0, options.vocab));
    teacher_head_ = kernels::as_factor(teacher.head->value.slice_rows(0, options.vocab));
    const std::int64_t rows = layers_ * chunk_rows;
    student_states_ = Tensor::empty(device_, {rows, student.head->value.columns()});
    teacher_states_ = Tensor::empty(device_, {rows, teacher.head->value.columns()});
    student_logits_ = Tensor::empty(device_, {rows, options.vocab});
    teacher_logits_ = Tensor::empty(device_, {rows, options.vocab});
    maxima_ = Tensor::empty(device_, {chunk_rows, layers_ * kernels::kDynamicsMaxima});
    sums_ = Tensor::empty(device_, {chunk_rows, layers_ * kernels::kDynamicsSums});
    products_ = Tensor::empty(device_, {chunk_rows, (layers_ - 1) * kernels::kDynamicsProducts});
  }

  // The rows [begin, begin + rows); `dstates` are those of the student that are trained.
  void run(std::int64_t begin, std::int64_t rows, const Tensor& results, bool gradient,
           const std::vector<Tensor>& dstates) {
    const kernels::DynamicsChunk chunk{
        logits(student_, student_head_, student_states_, student_logits_, begin, rows),
        logits(teacher_, teacher_head_, teacher_states_, teacher_logits_, begin, rows)};
    compare(chunk, results.slice_rows(begin, rows), gradient);
    if (gradient) accumulate(begin, rows, dstates);
  }

 private:
  // Logits [K, rows, vocab] of a chunk: one product for all layers reads the head once.
  Tensor logits(const KeyLayerStates& model, const Tensor& head, const Tensor& states,
                const Tensor& buffer, std::int64_t begin, std::int64_t rows) const {
    for (std::int64_t k = 0; k < layers_; ++k)
      kernels::copy(model.states[static_cast<std::size_t>(k)].value.slice_rows(begin, rows),
                    states.slice_rows(k * rows, rows));
    const Tensor made = buffer.slice_rows(0, layers_ * rows);
    kernels::gemm(states.slice_rows(0, layers_ * rows), Trans::no, head, Trans::yes, made);
    return made.view({layers_, rows, options_.vocab});
  }

  // The losses of a chunk's rows and, in place of the student's logits, their gradient.
  void compare(const kernels::DynamicsChunk& chunk, const Tensor& results, bool gradient) const {
    const std::int64_t rows = chunk.rows();
    const Tensor maxima = maxima_.slice_rows(0, rows), sums = sums_.slice_rows(0, rows);
    const Tensor products = products_.slice_rows(0, rows);
    const kernels::DynamicsLoss& loss = options_.loss;
    if (tp_ == nullptr) {
      kernels::dynamics(loss, chunk, maxima, sums, products, results, gradient);
      return;
    }
    kernels::dynamics_maxima(chunk, maxima);
    reduce(maxima, comm::ReduceOp::max);
    kernels::dynamics_sums(loss, chunk, maxima, sums);
    reduce(sums, comm::ReduceOp::sum);
    if (loss.derivative_weight != 0) {
      kernels::dynamics_products(chunk, maxima, sums, products);
      reduce(products, comm::ReduceOp::sum);
    }
    kernels::dynamics_gradient(loss, chunk, maxima, sums, products, results, gradient);
  }

  // The head's and the states' gradients from that of the logits, which has replaced them.
  void accumulate(std::int64_t begin, std::int64_t rows, const std::vector<Tensor>& dstates) const {
    const Var& head = *student_.head;
    const std::int64_t all = layers_ * rows;
    const Tensor dlogits = kernels::as_factor(student_logits_.slice_rows(0, all));
    const Tensor states = student_states_.slice_rows(0, all);
    if (head.slot) {
      const Tensor dhead = head.slot->sum_target(device_, head.value.shape());
      kernels::gemm(dlogits, Trans::yes, states, Trans::no, dhead.slice_rows(0, options_.vocab),
                    1.0f, 1.0f);
    }
    if (!std::any_of(dstates.begin(), dstates.end(), [](const Tensor& d) { return d.defined(); }))
      return;
    // The states have been read for the last time: their gradients take their place.
    kernels::gemm(dlogits, Trans::no, student_head_, Trans::no, states);
    for (std::int64_t k = 0; k < layers_; ++k)
      if (const Tensor& dstate = dstates[static_cast<std::size_t>(k)]; dstate.defined())
        kernels::copy(states.slice_rows(k * rows, rows), dstate.slice_rows(begin, rows));
  }

  void reduce(const Tensor& statistics, comm::ReduceOp op) const {
    if (tp_ != nullptr) comm::all_reduce(*tp_, statistics, op);
  }

  comm::Communicator* tp_;
  const FddOptions& options_;
  const KeyLayerStates &student_, &teacher_;
  std::int64_t layers_;
  Device& device_;
  Tensor student_states_, teacher_states_;  // of a chunk, layer after layer
  Tensor student_logits_, teacher_logits_, maxima_, sums_, products_;
  Tensor student_head_, teacher_head_;  // for the products of all chunks
};

// Each state's gradient, summed over the vocabulary's ranks, waits on the tape for its slot.
void hand_on(Tape* tape, comm::Communicator* tp, const KeyLayerStates& student,
             const std::vector<Tensor>& dstates) {
  for (std::size_t k = 0; k < dstates.size(); ++k) {
    if (!dstates[k].defined()) continue;
    if (tp != nullptr && tp->size() > 1) comm::all_reduce(*tp, dstates[k], comm::ReduceOp::sum);
    tape->record("fdd", {dstates[k]},
                 [gradient = dstates[k], slot = student.states[k].slot] { slot->add(gradient); });
  }
}

}  // namespace

FddSums& FddSums::operator+=(const FddSums& other) {
  trajectory += other.trajectory;
  derivative += other.derivative;
  tokens += other.tokens;
  return *this;
}

Tensor fdd_losses(Tape* tape, comm::Communicator* tp, const FddOptions& options,
                  const KeyLayerStates& student, const KeyLayerStates& teacher) {
  check(options, student, teacher);
  const std::int64_t n = student.states[0].value.rows();
  if (n == 0) return {};
  Device& device = student.states[0].value.device();
  std::vector<Tensor> dstates;
  bool gradient = tape != nullptr && student.head->needs_grad();
  for (const Var& state : student.states) {
    const bool trained = tape != nullptr && state.needs_grad();
    dstates.push_back(trained ? Tensor::empty(device, state.value.shape()) : Tensor());
    gradient = gradient || trained;
  }
  const Tensor results = Tensor::empty(device, {n, kernels::kDynamicsResults});
  const std::int64_t chunk_rows = model::even_chunk(n, options.chunk_rows);
  {
    Dynamics dynamics(tp, options, student, teacher, chunk_rows);
    for (std::int64_t begin = 0; begin < n; begin += chunk_rows)
      dynamics.run(begin, std::min(chunk_rows, n - begin), results, gradient, dstates);
  }
  hand_on(tape, tp, student, dstates);
  return results;
}

FddSums sum_dynamics(const std::vector<float>& results) {
  FddSums sums;
  for (std::size_t at = 0; at < results.size(); at += kernels::kDynamicsResults) {
    sums.trajectory += results[at + kernels::kTrajectory];
    sums.derivative += results[at + kernels::kDerivative];
    ++sums.tokens;
  }
  return sums;
}

FddSums fdd_loss(Tape* tape, comm::Communicator* tp, const FddOptions& options,
                 const KeyLayerStates& student, const KeyLayerStates& teacher) {
  const Tensor results = fdd_losses(tape, tp, options, student, teacher);
  return results.defined() ? sum_dynamics(to_host(results)) : FddSums();
}

}  // namespace fathom::methods::distill
