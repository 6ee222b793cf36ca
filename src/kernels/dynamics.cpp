#include "kernels/dynamics.h"

#include <cmath>

#include "kernels/math.h"
#include "kernels/rows.h"

namespace fathom::kernels {
namespace {

constexpr float kChangeEps = 1e-5f;

// A chunk as the passes see it; copied into the kernels.
struct View {
  float *student, *teacher;
  std::int64_t layers, rows, columns;

  explicit View(const DynamicsChunk& chunk)
      : student(chunk.student.ptr<float>()),
        teacher(chunk.teacher.ptr<float>()),
        layers(chunk.layers()),
        rows(chunk.rows()),
        columns(chunk.student.columns()) {
    FATHOM_CHECK(chunk.student.shape() == chunk.teacher.shape(), "logits of the student ",
                 to_string(chunk.student.shape()), " and the teacher ",
                 to_string(chunk.teacher.shape()));
  }
  FATHOM_HOST_DEVICE std::int64_t at(std::int64_t k, std::int64_t r) const {
    return (k * rows + r) * columns;
  }
};

// log softmax(z_k) - log softmax(z_{k-1}) is z_k - z_{k-1} less these.
struct Shifts {
  float student, teacher;
};

FATHOM_HOST_DEVICE inline Shifts shifts(const float* maxima, const float* sums, std::int64_t k) {
  const float *max = maxima + k * kDynamicsMaxima, *before = max - kDynamicsMaxima;
  const float *sum = sums + k * kDynamicsSums, *sum_before = sum - kDynamicsSums;
  return {max[kDynamicsMaxStudent] - before[kDynamicsMaxStudent] +
              (logf(sum[kDynamicsStudent]) - logf(sum_before[kDynamicsStudent])),
          max[kDynamicsMaxTeacher] - before[kDynamicsMaxTeacher] +
              (logf(sum[kDynamicsTeacher]) - logf(sum_before[kDynamicsTeacher]))};
}

// The cosine between two changes, and its gradient by the student's: pull d^T + turn d^S is that of
// weight (1 - cosine), and `total` its sum over the vocabulary.
struct Cosine {
  float value = 1, pull = 0, turn = 0, total = 0;
};

FATHOM_HOST_DEVICE inline Cosine cosine_of(const float* product, float weight) {
  const float own = sqrtf(product[kChangeStudent2]), other = sqrtf(product[kChangeTeacher2]);
  const float inverse =
      1.0f / ((own > kChangeEps ? own : kChangeEps) * (other > kChangeEps ? other : kChangeEps));
  Cosine cosine;
  cosine.value = product[kChangeProduct] * inverse;
  cosine.pull = -weight * inverse;
  // A change that counts as longer than it is: its length does not matter.
  cosine.turn = own > kChangeEps ? weight * cosine.value / product[kChangeStudent2] : 0.0f;
  cosine.total = cosine.pull * product[kChangeTeacher] + cosine.turn * product[kChangeStudent];
  return cosine;
}

template <typename R>
FATHOM_HOST_DEVICE void layer_sums(const R& row, const float* z, const float* t, std::int64_t n,
                                   const float* max, float inverse_t, float* out) {
  const float zmax = max[kDynamicsMaxStudent], tmax = max[kDynamicsMaxTeacher], it = inverse_t;
  const Triple plain = row.sums(n, [&](std::int64_t i) {
    return Triple{exp_f(z[i] - zmax), exp_f(t[i] - tmax), 0.0f};
  });
  // Differences of shifted logits, so that the sum stays small when both are large.
  const Triple soft = row.sums(n, [&](std::int64_t i) {
    const float dz = (z[i] - zmax) * it, dt = (t[i] - tmax) * it, p = exp_f(dt);
    return Triple{exp_f(dz), p, p * (dt - dz)};
  });
  row.each(1, [&](std::int64_t) {
    out[kDynamicsStudent] = plain.a;
    out[kDynamicsTeacher] = plain.b;
    out[kDynamicsStudentT] = soft.a;
    out[kDynamicsTeacherT] = soft.b;
    out[kDynamicsCross] = soft.c;
  });
}

// The trajectory's gradient at one layer: scale (ratio q - p) with unnormalised q and p, exactly
// zero where the models agree.
struct Pull {
  float student_max, teacher_max, inverse_t, scale, ratio, inverse_sum;

  FATHOM_HOST_DEVICE Pull(const DynamicsLoss& loss, const float* max, const float* sum)
      : student_max(max[kDynamicsMaxStudent]),
        teacher_max(max[kDynamicsMaxTeacher]),
        inverse_t(1.0f / loss.temperature),
        scale(loss.trajectory_weight / loss.temperature / sum[kDynamicsTeacherT]),
        ratio(sum[kDynamicsTeacherT] / sum[kDynamicsStudentT]),
        inverse_sum(1.0f / sum[kDynamicsStudent]) {}
  FATHOM_HOST_DEVICE float operator()(float z, float t) const {
    return scale *
           (ratio * exp_f((z - student_max) * inverse_t) - exp_f((t - teacher_max) * inverse_t));
  }
  FATHOM_HOST_DEVICE float probability(float z) const {
    return exp_f(z - student_max) * inverse_sum;
  }
};

// Layer by layer, each entry's gradient needs the logits before and after: those before have been
// replaced, so the gradient of a change waits in the teacher's logits, which are done with.
template <typename R>
FATHOM_HOST_DEVICE void row_gradient(const R& row, const View& view, const DynamicsLoss& loss,
                                     std::int64_t r, const float* max, const float* sum,
                                     const float* product) {
  Cosine before;
  for (std::int64_t k = 0; k < view.layers; ++k) {
    float *z = view.student + view.at(k, r), *t = view.teacher + view.at(k, r);
    const Pull pull(loss, max + k * kDynamicsMaxima, sum + k * kDynamicsSums);
    if (loss.derivative_weight == 0.0f) {
      row.each(view.columns, [&](std::int64_t i) { z[i] = pull(z[i], t[i]); });
      continue;
    }
    const bool last = k + 1 == view.layers;
    const Cosine after =
        last ? Cosine{} : cosine_of(product + k * kDynamicsProducts, loss.derivative_weight);
    const Shifts shift = last ? Shifts{} : shifts(max, sum, k + 1);
    const float* z_after = last ? z : z + view.rows * view.columns;
    const float* t_after = last ? t : t + view.rows * view.columns;
    const float* waiting = k == 0 ? t : t - view.rows * view.columns;
    const float keep = k == 0 ? 0.0f : 1.0f, totals = before.total - after.total;
    row.each(view.columns, [&](std::int64_t i) {
      const float change = after.turn * (z_after[i] - z[i] - shift.student) +
                           after.pull * (t_after[i] - t[i] - shift.teacher);
      const float gradient =
          pull(z[i], t[i]) + keep * waiting[i] - change - pull.probability(z[i]) * totals;
      t[i] = change;
      z[i] = gradient;
    });
    before = after;
  }
}

// What the passes leave for each other: statistics of each row, in the order of the enums.
struct Statistics {
  float *maxima, *sums, *products;  // products may be null: no derivative is asked for

  Statistics(const Tensor& to_maxima, const Tensor& to_sums, const Tensor& to_products)
      : maxima(to_maxima.ptr<float>()),
        sums(to_sums ? to_sums.ptr<float>() : nullptr),
        products(to_products ? to_products.ptr<float>() : nullptr) {}
};

template <typename R>
FATHOM_HOST_DEVICE void row_maxima(const R& row, const View& view, std::int64_t r, float* out) {
  for (std::int64_t k = 0; k < view.layers; ++k) {
    const float *z = view.student + view.at(k, r), *t = view.teacher + view.at(k, r);
    const float student = row.max(view.columns, [&](std::int64_t i) { return z[i]; });
    const float teacher = row.max(view.columns, [&](std::int64_t i) { return t[i]; });
    float* to = out + (r * view.layers + k) * kDynamicsMaxima;
    row.each(1, [&](std::int64_t) {
      to[kDynamicsMaxStudent] = student;
      to[kDynamicsMaxTeacher] = teacher;
    });
  }
}

template <typename R>
FATHOM_HOST_DEVICE void row_sums(const R& row, const View& view, std::int64_t r, float inverse_t,
                                 const float* maxima, float* out) {
  for (std::int64_t k = 0; k < view.layers; ++k) {
    const std::int64_t at = r * view.layers + k;
    layer_sums(row, view.student + view.at(k, r), view.teacher + view.at(k, r), view.columns,
               maxima + at * kDynamicsMaxima, inverse_t, out + at * kDynamicsSums);
  }
}

template <typename R>
FATHOM_HOST_DEVICE void row_products(const R& row, const View& view, std::int64_t r,
                                     const float* maxima, const float* sums, float* out) {
  const std::int64_t stride = view.rows * view.columns;
  for (std::int64_t k = 1; k < view.layers; ++k) {
    const Shifts shift = shifts(maxima + r * view.layers * kDynamicsMaxima,
                                sums + r * view.layers * kDynamicsSums, k);
    const float *z = view.student + view.at(k, r), *t = view.teacher + view.at(k, r);
    const Triple second = row.sums(view.columns, [&](std::int64_t i) {
      const float s = z[i] - z[i - stride] - shift.student;
      const float g = t[i] - t[i - stride] - shift.teacher;
      return Triple{s * s, g * g, s * g};
    });
    const Triple first = row.sums(view.columns, [&](std::int64_t i) {
      return Triple{z[i] - z[i - stride] - shift.student, t[i] - t[i - stride] - shift.teacher,
                    0.0f};
    });
    float* to = out + (r * (view.layers - 1) + k - 1) * kDynamicsProducts;
    row.each(1, [&](std::int64_t) {
      to[kChangeStudent2] = second.a;
      to[kChangeTeacher2] = second.b;
      to[kChangeProduct] = second.c;
      to[kChangeStudent] = first.a;
      to[kChangeTeacher] = first.b;
    });
  }
}

// The row's losses and, if `gradient`, its logits' gradient.
template <typename R>
FATHOM_HOST_DEVICE void row_results(const R& row, const View& view, const DynamicsLoss& loss,
                                    std::int64_t r, const Statistics& of, float* results,
                                    bool gradient) {
  const float* max = of.maxima + r * view.layers * kDynamicsMaxima;
  const float* sum = of.sums + r * view.layers * kDynamicsSums;
  const bool changes = loss.derivative_weight != 0.0f;
  const float* product =
      changes ? of.products + r * (view.layers - 1) * kDynamicsProducts : nullptr;
  row.each(1, [&](std::int64_t) {
    float trajectory = 0.0f, derivative = 0.0f;
    for (std::int64_t k = 0; k < view.layers; ++k) {
      const float* s = sum + k * kDynamicsSums;
      trajectory += s[kDynamicsCross] / s[kDynamicsTeacherT] -
                    (logf(s[kDynamicsTeacherT]) - logf(s[kDynamicsStudentT]));
      if (changes && k > 0)
        derivative += 1.0f - cosine_of(product + (k - 1) * kDynamicsProducts, 1.0f).value;
    }
    results[r * kDynamicsResults + kTrajectory] = trajectory;
    results[r * kDynamicsResults + kDerivative] = derivative;
  });
  if (gradient) row_gradient(row, view, loss, r, max, sum, product);
}

}  // namespace

void dynamics_maxima(const DynamicsChunk& chunk, const Tensor& maxima) {
  const View view(chunk);
  float* out = maxima.ptr<float>();
  for_each_row(
      maxima.device(), view.rows, view.layers * view.columns,
      FATHOM_BODY(const Row& row, std::int64_t r) { row_maxima(row, view, r, out); });
}

void dynamics_sums(const DynamicsLoss& loss, const DynamicsChunk& chunk, const Tensor& maxima,
                   const Tensor& sums) {
  const View view(chunk);
  const float *max = maxima.ptr<float>(), inverse_t = 1.0f / loss.temperature;
  float* out = sums.ptr<float>();
  for_each_row(
      sums.device(), view.rows, view.layers * view.columns,
      FATHOM_BODY(const Row& row, std::int64_t r) { row_sums(row, view, r, inverse_t, max, out); });
}

void dynamics_products(const DynamicsChunk& chunk, const Tensor& maxima, const Tensor& sums,
                       const Tensor& products) {
  const View view(chunk);
  const float *max = maxima.ptr<float>(), *sum = sums.ptr<float>();
  float* out = products.ptr<float>();
  for_each_row(
      products.device(), view.rows, view.layers * view.columns,
      FATHOM_BODY(const Row& row, std::int64_t r) { row_products(row, view, r, max, sum, out); });
}

void dynamics_gradient(const DynamicsLoss& loss, const DynamicsChunk& chunk, const Tensor& maxima,
                       const Tensor& sums, const Tensor& products, const Tensor& results,
                       bool gradient) {
  const View view(chunk);
  const Statistics of(maxima, sums, products);
  float* out = results.ptr<float>();
  for_each_row(
      results.device(), view.rows, view.layers * view.columns,
      FATHOM_BODY(const Row& row, std::int64_t r) {
        row_results(row, view, loss, r, of, out, gradient);
      });
}

void dynamics(const DynamicsLoss& loss, const DynamicsChunk& chunk, const Tensor& maxima,
              const Tensor& sums, const Tensor& products, const Tensor& results, bool gradient) {
  const View view(chunk);
  const Statistics of(maxima, sums, products);
  const float inverse_t = 1.0f / loss.temperature;
  const bool changes = loss.derivative_weight != 0.0f;
  float* out = results.ptr<float>();
  for_each_row(
      results.device(), view.rows, view.layers * view.columns,
      FATHOM_BODY(const Row& row, std::int64_t r) {
        row_maxima(row, view, r, of.maxima);
        row.sync();
        row_sums(row, view, r, inverse_t, of.maxima, of.sums);
        row.sync();
        if (changes) {
          row_products(row, view, r, of.maxima, of.sums, of.products);
          row.sync();
        }
        row_results(row, view, loss, r, of, out, gradient);
      });
}

}  // namespace fathom::kernels
