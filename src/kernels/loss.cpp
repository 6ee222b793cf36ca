#include "kernels/loss.h"

#include "kernels/loss_row.h"

namespace fathom::kernels {

LossView::LossView(const TokenLoss& loss, const LogitChunk& chunk)
    : student(chunk.student.ptr<float>()),
      teacher(chunk.teacher.defined() ? chunk.teacher.ptr<float>() : nullptr),
      labels(chunk.labels.ptr<std::int32_t>()),
      row_weights(chunk.row_weights.defined() ? chunk.row_weights.ptr<float>() : nullptr),
      row_alpha(chunk.row_alpha.defined() ? chunk.row_alpha.ptr<float>() : nullptr),
      student_stride(chunk.student.row_stride()),
      teacher_stride(chunk.teacher.defined() ? chunk.teacher.row_stride() : 0),
      columns(chunk.student.columns()),
      first_id(chunk.first_id),
      ce_weight(loss.ce_weight),
      kd_weight(loss.kd_weight),
      inverse_t(1.0f / loss.temperature),
      teacher_cross_entropy(loss.teacher_cross_entropy),
      form(loss.divergence.resolved()) {
  const std::int64_t n = chunk.student.rows();
  FATHOM_CHECK(chunk.labels.elements() == n, "labels of ", n, " rows");
  FATHOM_CHECK(
      !chunk.teacher.defined() || (chunk.teacher.rows() == n && chunk.teacher.columns() == columns),
      "teacher logits ", to_string(chunk.teacher.shape()), " against ",
      to_string(chunk.student.shape()));
  FATHOM_CHECK(chunk.teacher.defined() || !loss.teacher_cross_entropy, "no teacher logits");
  FATHOM_CHECK(!chunk.row_weights.defined() ||
                   (chunk.row_weights.elements() == 2 * n && chunk.row_weights.contiguous()),
               "row weights ", to_string(chunk.row_weights.shape()), " of ", n, " rows");
  FATHOM_CHECK(!chunk.row_alpha.defined() || chunk.row_alpha.elements() == n, "row alpha ",
               to_string(chunk.row_alpha.shape()), " of ", n, " rows");
  const bool skewed = form.kind == Divergence::skew_kl || form.kind == Divergence::skew_reverse_kl;
  FATHOM_CHECK(!chunk.row_alpha.defined() || skewed, to_string(form.kind), " has no alpha");
  FATHOM_CHECK(!skewed || (form.alpha > 0 && form.alpha < 1), "alpha ", form.alpha);
  FATHOM_CHECK(form.kind != Divergence::js || (form.beta > 0 && form.beta < 1), "beta ", form.beta);
}

namespace {

RowMaxima FATHOM_HOST_DEVICE read_maxima(const float* from) {
  return {from[kMaxStudent], from[kMaxTeacher]};
}

RowSums FATHOM_HOST_DEVICE read_sums(const float* from) {
  return {from[kSumStudent], from[kSumStudentT], from[kSumTeacherT], from[kCross],
          from[kLabelLogit], from[kSumTeacher],  from[kTeacherLabel]};
}

// How a row gets at the arithmetic of its divergence.
struct ReverseKlOf {
  FATHOM_HOST_DEVICE ReverseKlEntry operator()(const LossView&, std::int64_t) const { return {}; }
};
struct TvdOf {
  FATHOM_HOST_DEVICE TvdEntry operator()(const LossView&, std::int64_t) const { return {}; }
};
struct MixtureOf {
  FATHOM_HOST_DEVICE MixtureEntry operator()(const LossView& view, std::int64_t r) const {
    return {view.form, view.alpha(r)};
  }
};

// call(entry_of) with the arithmetic of a divergence of two stages.
template <typename Call>
void with_entry(Divergence kind, Call call) {
  switch (kind) {
    case Divergence::reverse_kl:
      return call(ReverseKlOf{});
    case Divergence::tvd:
      return call(TvdOf{});
    default:
      return call(MixtureOf{});
  }
}

template <typename EntryOf>
void divergences_of(EntryOf entry_of, const LossView& view, const Tensor& maxima,
                    const Tensor& sums, const Tensor& divergences, bool gradient) {
  const float *max = maxima.ptr<float>(), *sum = sums.ptr<float>();
  float* out = divergences.ptr<float>();
  for_each_row(
      divergences.device(), divergences.rows(), view.columns,
      FATHOM_BODY(const Row& row, std::int64_t r) {
        const RowDivergence found =
            row_divergence(row, view, r, read_maxima(max + r * kLossMaxima),
                           read_sums(sum + r * kLossSums), entry_of(view, r), gradient);
        row.each(1, [&](std::int64_t) {
          out[r * kDivergenceSums + kDivergenceSum] = found.value;
          out[r * kDivergenceSums + kMeanSlope] = found.mean_slope;
        });
      });
}

template <typename EntryOf>
void whole_of(EntryOf entry_of, const LossView& view, const Tensor& results, bool gradient) {
  float* out = results.ptr<float>();
  for_each_row(
      results.device(), results.rows(), view.columns, FATHOM_BODY(const Row& row, std::int64_t r) {
        const RowMaxima m = row_maxima(row, view, r);
        const RowSums s = row_sums(row, view, r, m);
        const RowDivergence d = row_divergence(row, view, r, m, s, entry_of(view, r), gradient);
        row_finish(row, view, r, m, s, d, out + r * kLossResults, gradient);
      });
}

}  // namespace

bool two_stage(const TokenLoss& loss, const LogitChunk& chunk) {
  return chunk.teacher.defined() && loss.divergence.resolved().kind != Divergence::forward_kl;
}

void loss_maxima(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& maxima) {
  const LossView view(loss, chunk);
  float* out = maxima.ptr<float>();
  for_each_row(
      maxima.device(), chunk.student.rows(), view.columns,
      FATHOM_BODY(const Row& row, std::int64_t r) {
        const RowMaxima found = row_maxima(row, view, r);
        row.each(1, [&](std::int64_t) {
          out[r * kLossMaxima + kMaxStudent] = found.student;
          out[r * kLossMaxima + kMaxTeacher] = found.teacher;
        });
      });
}

void loss_sums(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& maxima,
               const Tensor& sums) {
  const LossView view(loss, chunk);
  const float* max = maxima.ptr<float>();
  float* out = sums.ptr<float>();
  for_each_row(
      sums.device(), chunk.student.rows(), view.columns,
      FATHOM_BODY(const Row& row, std::int64_t r) {
        const RowSums found = row_sums(row, view, r, read_maxima(max + r * kLossMaxima));
        row.each(1, [&](std::int64_t) {
          float* to = out + r * kLossSums;
          to[kSumStudent] = found.student;
          to[kSumStudentT] = found.student_t;
          to[kSumTeacherT] = found.teacher_t;
          to[kCross] = found.cross;
          to[kLabelLogit] = found.label;
          to[kSumTeacher] = found.teacher;
          to[kTeacherLabel] = found.teacher_label;
        });
      });
}

void loss_divergences(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& maxima,
                      const Tensor& sums, const Tensor& divergences, bool gradient) {
  const LossView view(loss, chunk);
  FATHOM_CHECK(two_stage(loss, chunk), to_string(view.form.kind), " needs no third pass");
  with_entry(view.form.kind, [&](auto entry_of) {
    divergences_of(entry_of, view, maxima, sums, divergences, gradient);
  });
}

void loss_gradient(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& maxima,
                   const Tensor& sums, const Tensor& divergences, const Tensor& results,
                   bool gradient) {
  const LossView view(loss, chunk);
  const bool staged = two_stage(loss, chunk);
  const float *max = maxima.ptr<float>(), *sum = sums.ptr<float>();
  const float* divergence = staged ? divergences.ptr<float>() : nullptr;
  float* out = results.ptr<float>();
  for_each_row(
      results.device(), chunk.student.rows(), view.columns,
      FATHOM_BODY(const Row& row, std::int64_t r) {
        const RowMaxima m = read_maxima(max + r * kLossMaxima);
        const RowSums s = read_sums(sum + r * kLossSums);
        float* result = out + r * kLossResults;
        if (divergence == nullptr) {
          row_gradient(row, view, r, m, s, result, gradient);
          return;
        }
        const float* from = divergence + r * kDivergenceSums;
        row_finish(row, view, r, m, s, {from[kDivergenceSum], from[kMeanSlope]}, result, gradient);
      });
}

void loss_whole(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& results,
                bool gradient) {
  const LossView view(loss, chunk);
  if (two_stage(loss, chunk)) {
    with_entry(view.form.kind, [&](auto entry_of) { whole_of(entry_of, view, results, gradient); });
    return;
  }
  float* out = results.ptr<float>();
  for_each_row(
      results.device(), chunk.student.rows(), view.columns,
      FATHOM_BODY(const Row& row, std::int64_t r) {
        const RowMaxima m = row_maxima(row, view, r);
        row_gradient(row, view, r, m, row_sums(row, view, r, m), out + r * kLossResults, gradient);
      });
}

}  // namespace fathom::kernels
