#include "methods/mta/align.h"

#include <algorithm>
#include <numeric>

#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/spans.h"
#include "kernels/token_importance.h"

namespace fathom::methods::mta {

using autograd::Tape;
using autograd::Var;
using kernels::Trans;

namespace {

// Pair weights below this in sum are as good as none: one span has all the mass.
constexpr float kLeastPairMass = 1e-5f;

// The alignment of one micro-batch, sample by sample: each GEMM has the shape that its sample gives
// it, and the workspace is one sample's.
class Alignment {
 public:
  Alignment(const AlignOptions& options, const LevelSpans& spans, const Tensor& student,
            const Tensor& teacher, const Tensor& dstudent)
      : options_(options),
        spans_(spans),
        student_(student),
        teacher_(teacher),
        dstudent_(dstudent) {
    teacher_weights_ = span_weights(spans, teacher);
  }

  // The structural terms; their gradient is added to dstudent if that is defined.
  Tensor structural() {
    student_weights_ = span_weights(spans_, student_, 2);
    const Tensor scales = pair_scales();
    const Tensor values = Tensor::zeros(student_.device(), {spans_.spans()});
    for (std::size_t s = 0; s < spans_.samples().size(); ++s)
      if (spans_.samples()[s].spans >= 2)
        structural_sample(spans_.samples()[s], scales.slice_rows(static_cast<std::int64_t>(s), 1),
                          values);
    return values;
  }

  // The hidden terms, likewise; also adds to the projector's slots if `train`.
  Tensor hidden(const Projector& projector, bool train) {
    const Tensor values = Tensor::empty(student_.device(), {spans_.covered_rows()});
    for (const LevelSpans::Sample& sample : spans_.samples())
      if (sample.covered_rows > 0) hidden_sample(sample, projector, train, values);
    return values;
  }

 private:
  struct Units {
    Tensor unit, norms, cosines;
  };

  // Spans' means, their lengths, and the cosines between them.
  Units compare(const LevelSpans::Sample& sample, const Tensor& states,
                const SpanWeights& weights) const {
    Device& device = states.device();
    Units units{Tensor::empty(device, {sample.spans, states.columns()}),
                Tensor::empty(device, {sample.spans}),
                Tensor::empty(device, {sample.spans, sample.spans})};
    kernels::span_units(states, weights.rows, weights.mass.slice_rows(sample.span, sample.spans),
                        spans_.bounds().slice_rows(sample.span, sample.spans), units.unit,
                        units.norms);
    kernels::gemm(units.unit, Trans::no, units.unit, Trans::yes, units.cosines, 1.0f, 0.0f,
                  kernels::Factors::exact);
    return units;
  }

  // What each sample's weighted squares are multiplied by, so that the sum over samples divided by
  // their number is the term.
  Tensor pair_scales() const {
    const auto samples = static_cast<std::int64_t>(spans_.samples().size());
    const Tensor scales = Tensor::empty(student_.device(), {samples});
    if (options_.normalise == PairNormalisation::none) {
      kernels::fill(scales, 1.0f);
      return scales;
    }
    kernels::pair_mass(teacher_weights_.mass, spans_.offsets(), scales);
    const bool batch = options_.normalise == PairNormalisation::batch;
    kernels::invert_mass(scales, kLeastPairMass,
                         batch ? static_cast<float>(spans_.list().dsa_samples()) : 0.0f);
    return scales;
  }

  void structural_sample(const LevelSpans::Sample& sample, const Tensor& scale,
                         const Tensor& values) const {
    const Tensor teacher_cosines = compare(sample, teacher_, teacher_weights_).cosines;
    const Units own = compare(sample, student_, student_weights_);
    kernels::similarity_loss(own.cosines, teacher_cosines,
                             teacher_weights_.mass.slice_rows(sample.span, sample.spans), scale,
                             dstudent_.defined() ? options_.dsa_weight : 0.0f,
                             values.slice_rows(sample.span, sample.spans));
    if (!dstudent_.defined()) return;
    const Tensor gradient = Tensor::empty(student_.device(), own.unit.shape());
    kernels::gemm(own.cosines, Trans::no, own.unit, Trans::no, gradient);
    kernels::span_units_backward(own.unit, own.norms, gradient);
    const kernels::Coverage coverage{
        covered(sample),
        spans_.covering_begin().slice_rows(sample.covered, sample.covered_rows + 1),
        spans_.covering()};
    kernels::span_means_backward(gradient, student_weights_.rows,
                                 student_weights_.mass.slice_rows(sample.span, sample.spans),
                                 spans_.bounds().slice_rows(sample.span, sample.spans), coverage,
                                 sample.span, dstudent_);
  }

  void hidden_sample(const LevelSpans::Sample& sample, const Projector& projector, bool train,
                     const Tensor& values) const {
    Device& device = student_.device();
    const Tensor rows = covered(sample), &weight = projector.weight.value;
    const Tensor x = Tensor::empty(device, {sample.covered_rows, student_.columns()});
    const Tensor y = Tensor::empty(device, {sample.covered_rows, teacher_.columns()});
    kernels::gather_rows(student_, rows, x);
    kernels::gemm(x, Trans::no, weight, Trans::yes, y);
    kernels::projected_cosine_loss(y, projector.bias.value, teacher_, rows, teacher_weights_.rows,
                                   spans_.counts(),
                                   train || dstudent_.defined() ? options_.hid_weight : 0.0f,
                                   values.slice_rows(sample.covered, sample.covered_rows));
    if (train && projector.bias.slot)
      kernels::accumulate_column_sums(
          y, projector.bias.slot->sum_target(device, projector.bias.value.shape()));
    if (train && projector.weight.slot)
      kernels::gemm(y, Trans::yes, x, Trans::no,
                    projector.weight.slot->sum_target(device, weight.shape()), 1.0f, 1.0f);
    if (!dstudent_.defined()) return;
    kernels::gemm(y, Trans::no, weight, Trans::no, x);  // x has served
    kernels::accumulate_rows(x, rows, dstudent_);
  }

  Tensor covered(const LevelSpans::Sample& sample) const {
    return spans_.covered().slice_rows(sample.covered, sample.covered_rows);
  }

  const AlignOptions& options_;
  const LevelSpans& spans_;
  const Tensor &student_, &teacher_, &dstudent_;
  SpanWeights teacher_weights_, student_weights_;
};

}  // namespace

AlignSums& AlignSums::operator+=(const AlignSums& other) {
  dsa += other.dsa;
  hid += other.hid;
  dsa_samples += other.dsa_samples;
  hid_samples += other.hid_samples;
  return *this;
}

SpanWeights span_weights(const LevelSpans& spans, const Tensor& states, std::int64_t least) {
  FATHOM_CHECK(states.rows() == spans.rows(), "states ", to_string(states.shape()),
               " for spans of ", spans.rows(), " rows");
  Device& device = states.device();
  SpanWeights weights{Tensor::zeros(device, {spans.rows()}),
                      Tensor::empty(device, {spans.spans()})};
  for (const LevelSpans::Sample& sample : spans.samples())
    if (sample.spans >= least)
      kernels::token_importance(states.slice_rows(sample.row, sample.rows),
                                weights.rows.slice_rows(sample.row, sample.rows));
  kernels::normalise_incidences(weights.rows, spans.counts(), spans.starts(), weights.rows);
  kernels::span_mass(weights.rows, spans.bounds(), weights.mass);
  return weights;
}

AlignResults align_states(Tape* tape, const AlignOptions& options, const LevelSpans& spans,
                          const Var& student, const Tensor& teacher, const Projector& projector) {
  AlignResults results;
  if (options.dsa_weight != 0) results.dsa_samples = spans.list().dsa_samples();
  if (options.hid_weight != 0) results.hid_samples = spans.list().hid_samples();
  if (results.dsa_samples == 0 && results.hid_samples == 0) return results;
  const bool gradient = tape != nullptr && student.needs_grad();
  const Tensor dstudent =
      gradient ? Tensor::zeros(student.value.device(), student.value.shape()) : Tensor();
  Alignment alignment(options, spans, student.value, teacher, dstudent);
  if (results.dsa_samples > 0) results.dsa = alignment.structural();
  if (results.hid_samples > 0) results.hid = alignment.hidden(projector, tape != nullptr);
  if (gradient)
    tape->record("mta", {dstudent}, [dstudent, slot = student.slot] { slot->add(dstudent); });
  return results;
}

double total(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

AlignSums align(Tape* tape, const AlignOptions& options, const LevelSpans& spans,
                const Var& student, const Tensor& teacher, const Projector& projector) {
  const AlignResults results = align_states(tape, options, spans, student, teacher, projector);
  const auto sum = [](const Tensor& values) {
    return values.defined() ? total(to_host(values)) : 0.0;
  };
  return {sum(results.dsa), sum(results.hid), results.dsa_samples, results.hid_samples};
}

}  // namespace fathom::methods::mta
