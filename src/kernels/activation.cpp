#include "kernels/activation.h"

#include "kernels/math.h"
#include "kernels/rows.h"

namespace fathom::kernels {
namespace {

constexpr float kSqrt2OverPi = 0.7978845608f;
constexpr float kCubic = 0.044715f;

struct GeluTanh {
  static FATHOM_HOST_DEVICE float value(float x) {
    return 0.5f * x * (1.0f + tanh_f(kSqrt2OverPi * (x + kCubic * x * x * x)));
  }
  static FATHOM_HOST_DEVICE float slope(float x) {
    const float t = tanh_f(kSqrt2OverPi * (x + kCubic * x * x * x));
    const float inner = kSqrt2OverPi * (1.0f + 3.0f * kCubic * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
  }
};

struct GeluErf {
  static FATHOM_HOST_DEVICE float value(float x) {
    return 0.5f * x * (1.0f + erf_f(x * 0.7071067812f));
  }
  static FATHOM_HOST_DEVICE float slope(float x) {
    const float density = 0.3989422804f * exp_f(-0.5f * x * x);
    return 0.5f * (1.0f + erf_f(x * 0.7071067812f)) + x * density;
  }
};

struct Relu {
  static FATHOM_HOST_DEVICE float value(float x) { return x > 0.0f ? x : 0.0f; }
  static FATHOM_HOST_DEVICE float slope(float x) { return x > 0.0f ? 1.0f : 0.0f; }
};

struct Silu {
  static FATHOM_HOST_DEVICE float value(float x) { return x * sigmoid_f(x); }
  static FATHOM_HOST_DEVICE float slope(float x) {
    const float s = sigmoid_f(x);
    return s * (1.0f + x * (1.0f - s));
  }
};

// Calls f with the functor of an activation, so that the loop inside is compiled for that one.
template <typename F>
void dispatch(Activation kind, F f) {
  switch (kind) {
    case Activation::gelu_tanh:
      return f(GeluTanh{});
    case Activation::gelu_erf:
      return f(GeluErf{});
    case Activation::relu:
      return f(Relu{});
    case Activation::silu:
      return f(Silu{});
  }
}

template <typename Act>
void forward(const Tensor& x, const Tensor& bias, const Tensor& y) {
  const float* in = x.ptr<float>();
  const float* b = bias.defined() ? bias.ptr<float>() : nullptr;
  float* out = y.ptr<float>();
  const std::int64_t n = x.columns();
  for_each_row(
      x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const std::int64_t at = r * n;
        if (b != nullptr) {
          row.each(n, [&](std::int64_t i) { out[at + i] = Act::value(in[at + i] + b[i]); });
        } else {
          row.each(n, [&](std::int64_t i) { out[at + i] = Act::value(in[at + i]); });
        }
      });
}

template <typename Act>
void backward(const Tensor& x, const Tensor& bias, const Tensor& dy, const Tensor& dx) {
  const float *in = x.ptr<float>(), *g = dy.ptr<float>();
  const float* b = bias.defined() ? bias.ptr<float>() : nullptr;
  float* out = dx.ptr<float>();
  const std::int64_t n = x.columns();
  for_each_row(
      x.device(), x.rows(), n, FATHOM_BODY(const Row& row, std::int64_t r) {
        const std::int64_t at = r * n;
        if (b != nullptr) {
          row.each(
              n, [&](std::int64_t i) { out[at + i] = g[at + i] * Act::slope(in[at + i] + b[i]); });
        } else {
          row.each(n, [&](std::int64_t i) { out[at + i] = g[at + i] * Act::slope(in[at + i]); });
        }
      });
}

template <typename Act>
void gated_forward_as(const Tensor& x, const Tensor& y) {
  const float* in = x.ptr<float>();
  float* out = y.ptr<float>();
  const std::int64_t f = y.columns();
  for_each_row(
      x.device(), x.rows(), 2 * f, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float *gate = in + r * 2 * f, *up = gate + f;
        row.each(f, [&](std::int64_t i) { out[r * f + i] = Act::value(gate[i]) * up[i]; });
      });
}

template <typename Act>
void gated_backward_as(const Tensor& x, const Tensor& dy, const Tensor& dx) {
  const float *in = x.ptr<float>(), *g = dy.ptr<float>();
  float* out = dx.ptr<float>();
  const std::int64_t f = dy.columns();
  for_each_row(
      x.device(), x.rows(), 2 * f, FATHOM_BODY(const Row& row, std::int64_t r) {
        const float *gate = in + r * 2 * f, *up = gate + f, *grad = g + r * f;
        float *dgate = out + r * 2 * f, *dup = dgate + f;
        row.each(f, [&](std::int64_t i) {
          const float slope = Act::slope(gate[i]), value = Act::value(gate[i]);
          const float upstream = grad[i], factor = up[i];
          dup[i] = upstream * value;
          dgate[i] = upstream * factor * slope;
        });
      });
}

}  // namespace

void activation_forward(Activation kind, const Tensor& x, const Tensor& bias, const Tensor& y) {
  FATHOM_CHECK(x.contiguous() && y.contiguous() && x.shape() == y.shape(), "activation of ",
               to_string(x.shape()));
  dispatch(kind, [&](auto act) { forward<decltype(act)>(x, bias, y); });
}

void activation_backward(Activation kind, const Tensor& x, const Tensor& bias, const Tensor& dy,
                         const Tensor& dx) {
  FATHOM_CHECK(x.contiguous() && dy.contiguous() && dx.contiguous() && x.shape() == dy.shape(),
               "activation gradient of ", to_string(x.shape()));
  dispatch(kind, [&](auto act) { backward<decltype(act)>(x, bias, dy, dx); });
}

void gated_forward(Activation kind, const Tensor& x, const Tensor& y) {
  FATHOM_CHECK(x.contiguous() && y.contiguous() && x.columns() == 2 * y.columns(),
               "gated activation of ", to_string(x.shape()), " into ", to_string(y.shape()));
  dispatch(kind, [&](auto act) { gated_forward_as<decltype(act)>(x, y); });
}

void gated_backward(Activation kind, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  FATHOM_CHECK(x.contiguous() && dy.contiguous() && dx.contiguous() && x.shape() == dx.shape(),
               "gated gradient of ", to_string(x.shape()));
  dispatch(kind, [&](auto act) { gated_backward_as<decltype(act)>(x, dy, dx); });
}

}  // namespace fathom::kernels
