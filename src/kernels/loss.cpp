#include "kernels/loss.h"

#include <cmath>

#include "kernels/math.h"
#include "kernels/rows.h"

namespace fathom::kernels {
namespace {

// One row of a chunk as the passes see it; copied into the kernels.
struct View {
  float* student;
  const float* teacher;
  const std::int32_t* labels;
  std::int64_t student_stride, teacher_stride, columns, first_id;
  float ce, kl, inverse_t;

  View(const TokenLoss& loss, const LogitChunk& chunk)
      : student(chunk.student.ptr<float>()),
        teacher(chunk.teacher.defined() ? chunk.teacher.ptr<float>() : nullptr),
        labels(chunk.labels.ptr<std::int32_t>()),
        student_stride(chunk.student.row_stride()),
        teacher_stride(chunk.teacher.defined() ? chunk.teacher.row_stride() : 0),
        columns(chunk.student.columns()),
        first_id(chunk.first_id),
        ce(loss.ce_weight),
        kl(loss.kl_weight),
        inverse_t(1.0f / loss.temperature) {
    FATHOM_CHECK(chunk.labels.elements() == chunk.student.rows(), "labels of ",
                 chunk.student.rows(), " rows");
    FATHOM_CHECK(!chunk.teacher.defined() || (chunk.teacher.rows() == chunk.student.rows() &&
                                              chunk.teacher.columns() == chunk.student.columns()),
                 "teacher logits ", to_string(chunk.teacher.shape()), " against ",
                 to_string(chunk.student.shape()));
  }
};

struct Maxima {
  float student, teacher;
};
struct Sums {
  float student, student_t, teacher, cross, label;
};

template <typename R>
FATHOM_HOST_DEVICE Maxima row_maxima(const R& row, const View& view, std::int64_t r) {
  const float* z = view.student + r * view.student_stride;
  Maxima maxima{row.max(view.columns, [&](std::int64_t i) { return z[i]; }), 0.0f};
  if (view.teacher != nullptr) {
    const float* t = view.teacher + r * view.teacher_stride;
    maxima.teacher = row.max(view.columns, [&](std::int64_t i) { return t[i]; });
  }
  return maxima;
}

template <typename R>
FATHOM_HOST_DEVICE Sums row_sums(const R& row, const View& view, std::int64_t r,
                                 const Maxima& max) {
  const float* z = view.student + r * view.student_stride;
  const std::int64_t n = view.columns, label = view.labels[r] - view.first_id;
  const float it = view.inverse_t;
  Sums sums{};
  sums.student = row.sum(n, [&](std::int64_t i) { return exp_f(z[i] - max.student); });
  sums.label = label >= 0 && label < n ? z[label] : 0.0f;
  if (view.teacher != nullptr) {
    const float* t = view.teacher + r * view.teacher_stride;
    sums.student_t =
        it == 1.0f ? sums.student
                   : row.sum(n, [&](std::int64_t i) { return exp_f((z[i] - max.student) * it); });
    sums.teacher = row.sum(n, [&](std::int64_t i) { return exp_f((t[i] - max.teacher) * it); });
    // Differences of shifted logits, so that the sum stays small when both are large.
    sums.cross = row.sum(n, [&](std::int64_t i) {
      const float dt = t[i] - max.teacher, dz = z[i] - max.student;
      return exp_f(dt * it) * ((dt - dz) * it);
    });
  }
  return sums;
}

template <typename R>
FATHOM_HOST_DEVICE void row_gradient(const R& row, const View& view, std::int64_t r,
                                     const Maxima& max, const Sums& sums, float* result,
                                     bool gradient) {
  float* z = view.student + r * view.student_stride;
  const std::int64_t n = view.columns, label = view.labels[r] - view.first_id;
  const float it = view.inverse_t;
  row.each(1, [&](std::int64_t) {
    result[kCrossEntropy] = logf(sums.student) + (max.student - sums.label);
    result[kForwardKl] = view.teacher == nullptr ? 0.0f
                                                 : sums.cross / sums.teacher -
                                                       (logf(sums.teacher) - logf(sums.student_t));
    result[kCorrect] = sums.label >= max.student ? 1.0f : 0.0f;
  });
  if (!gradient) return;
  row.sync();
  const float ce = view.ce / sums.student;
  if (view.teacher == nullptr) {
    row.each(n, [&](std::int64_t i) { z[i] = ce * exp_f(z[i] - max.student); });
  } else {
    const float* t = view.teacher + r * view.teacher_stride;
    // teacher (ratio q - p) with unnormalised q and p: exactly zero where the models agree, which
    // the difference of two products would not be once it is contracted into a fused multiply-add.
    const float teacher = view.kl * it / sums.teacher, ratio = sums.teacher / sums.student_t;
    if (it == 1.0f) {
      row.each(n, [&](std::int64_t i) {
        const float q = exp_f(z[i] - max.student), p = exp_f(t[i] - max.teacher);
        z[i] = ce * q + teacher * (ratio * q - p);
      });
    } else {
      row.each(n, [&](std::int64_t i) {
        const float dz = z[i] - max.student;
        const float q = exp_f(dz * it), p = exp_f((t[i] - max.teacher) * it);
        z[i] = ce * exp_f(dz) + teacher * (ratio * q - p);
      });
    }
  }
  row.sync();
  if (label >= 0 && label < n) row.each(1, [&](std::int64_t) { z[label] -= view.ce; });
}

}  // namespace

void loss_maxima(const LogitChunk& chunk, const Tensor& maxima) {
  const View view(TokenLoss{}, chunk);
  float* out = maxima.ptr<float>();
  for_each_row(
      maxima.device(), chunk.student.rows(), view.columns,
      FATHOM_BODY(const Row& row, std::int64_t r) {
        const Maxima found = row_maxima(row, view, r);
        row.each(1, [&](std::int64_t) {
          out[r * kLossMaxima + kMaxStudent] = found.student;
          out[r * kLossMaxima + kMaxTeacher] = found.teacher;
        });
      });
}

void loss_sums(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& maxima,
               const Tensor& sums) {
  const View view(loss, chunk);
  const float* max = maxima.ptr<float>();
  float* out = sums.ptr<float>();
  for_each_row(
      sums.device(), chunk.student.rows(), view.columns,
      FATHOM_BODY(const Row& row, std::int64_t r) {
        const Maxima m{max[r * kLossMaxima + kMaxStudent], max[r * kLossMaxima + kMaxTeacher]};
        const Sums found = row_sums(row, view, r, m);
        row.each(1, [&](std::int64_t) {
          float* to = out + r * kLossSums;
          to[kSumStudent] = found.student;
          to[kSumStudentT] = found.student_t;
          to[kSumTeacher] = found.teacher;
          to[kCross] = found.cross;
          to[kLabelLogit] = found.label;
        });
      });
}

void loss_gradient(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& maxima,
                   const Tensor& sums, const Tensor& results, bool gradient) {
  const View view(loss, chunk);
  const float *max = maxima.ptr<float>(), *sum = sums.ptr<float>();
  float* out = results.ptr<float>();
  for_each_row(
      results.device(), chunk.student.rows(), view.columns,
      FATHOM_BODY(const Row& row, std::int64_t r) {
        const Maxima m{max[r * kLossMaxima + kMaxStudent], max[r * kLossMaxima + kMaxTeacher]};
        const float* from = sum + r * kLossSums;
        const Sums s{from[kSumStudent], from[kSumStudentT], from[kSumTeacher], from[kCross],
                     from[kLabelLogit]};
        row_gradient(row, view, r, m, s, out + r * kLossResults, gradient);
      });
}

void loss_whole(const TokenLoss& loss, const LogitChunk& chunk, const Tensor& results,
                bool gradient) {
  const View view(loss, chunk);
  float* out = results.ptr<float>();
  for_each_row(
      results.device(), chunk.student.rows(), view.columns,
      FATHOM_BODY(const Row& row, std::int64_t r) {
        const Maxima m = row_maxima(row, view, r);
        const Sums s = row_sums(row, view, r, m);
        row_gradient(row, view, r, m, s, out + r * kLossResults, gradient);
      });
}

}  // namespace fathom::kernels
