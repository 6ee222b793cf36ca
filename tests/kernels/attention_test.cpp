#include <gtest/gtest.h>
#include <omp.h>

#include "attention_reference.h"
#include "core/tensor.h"
#include "random_values.h"
#include "tests/support/test_device.h"

namespace fathom::test {
namespace {

using kernels::AttentionDropout;
using kernels::AttentionShape;

AttentionShape make_shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                          std::int64_t window = 0) {
  return {heads, kv_heads, head_dim, window, 1.0f / std::sqrt(static_cast<float>(head_dim))};
}

std::vector<std::int32_t> make_starts(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> starts{0};
  for (std::int32_t length : lengths) starts.push_back(starts.back() + length);
  return starts;
}

AttentionDropout make_dropout(float probability, std::vector<std::uint32_t> samples) {
  return {probability, 7u, 11u, 5u, 0, std::move(samples)};
}

struct Results {
  std::vector<float> out, lse, dq, dk, dv;
};

// Runs both directions on column slices of NaN-filled buffers.
Results run(const Reference& r, const Doubles& q, const Doubles& k, const Doubles& v,
            const Doubles& dout) {
  const auto device = make_test_device(std::size_t{256} << 20);
  const std::int64_t n = r.rows(), width = r.width(), kv_width = r.kv_width();
  const Tensor tq = strided(*device, n, width, q), tk = strided(*device, n, kv_width, k, 4, 1),
               tv = strided(*device, n, kv_width, v, 0, 7),
               tdout = strided(*device, n, width, dout), out = strided(*device, n, width, {}, 1, 1),
               lse = strided(*device, n, r.shape.heads, {}, 2, 0),
               dq = strided(*device, n, width, {}, 5, 0), dk = strided(*device, n, kv_width, {}),
               dv = strided(*device, n, kv_width, {});
  kernels::attention_forward(r.shape, r.starts, r.dropout, tq, tk, tv, out, lse);
  kernels::attention_backward(r.shape, r.starts, r.dropout, tq, tk, tv, out, lse, tdout, dq, dk,
                              dv);
  return {to_host(out), to_host(lse), to_host(dq), to_host(dk), to_host(dv)};
}

struct Inputs {
  explicit Inputs(const Reference& r)
      : q(random_values(r.rows() * r.width(), 1)),
        k(random_values(r.rows() * r.kv_width(), 2)),
        v(random_values(r.rows() * r.kv_width(), 3)),
        dout(random_values(r.rows() * r.width(), 4)) {}
  Doubles q, k, v, dout;
};

void expect_agrees(const Reference& r) {
  const Inputs in(r);
  Doubles out, lse, dq, dk, dv;
  r.forward(in.q, in.k, in.v, out, lse);
  r.backward(in.q, in.k, in.v, in.dout, dq, dk, dv);
  const Results got = run(r, in.q, in.k, in.v, in.dout);
  // Values are of order one (gradients of keys: the root of the number of queries), with f32 sums.
  EXPECT_LT(largest_difference(got.out, out), 3e-6);
  EXPECT_LT(largest_difference(got.lse, lse), 3e-6);
  EXPECT_LT(largest_difference(got.dq, dq), 2e-5);
  EXPECT_LT(largest_difference(got.dk, dk), 2e-5);
  EXPECT_LT(largest_difference(got.dv, dv), 2e-5);
}

// The threads decide between one and two backward passes.
class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~Threads() { omp_set_num_threads(before_); }

 private:
  int before_;
};

TEST(Attention, ReferenceGradientsAreThoseOfItsForward) {
  const Reference r{make_shape(4, 2, 3, 4), make_starts({5, 1, 7}), make_dropout(0.3f, {3, 9, 4})};
  Inputs in(r);
  Doubles dq, dk, dv;
  r.backward(in.q, in.k, in.v, in.dout, dq, dk, dv);
  const auto loss = [&] {
    Doubles out, lse;
    r.forward(in.q, in.k, in.v, out, lse);
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * in.dout[i];
    return sum;
  };
  const double step = 1e-5;
  for (const auto& [values, gradient] :
       {std::pair{&in.q, &dq}, std::pair{&in.k, &dk}, std::pair{&in.v, &dv}})
    for (std::size_t i = 0; i < values->size(); ++i) {
      const double before = (*values)[i];
      (*values)[i] = before + step;
      const double above = loss();
      (*values)[i] = before - step;
      const double below = loss();
      (*values)[i] = before;
      EXPECT_NEAR((*gradient)[i], (above - below) / (2 * step), 1e-8) << i;
    }
}

TEST(Attention, AgreesAtAllLengths) {
  for (std::int32_t length : {1, 2, 7, 24, 33, 63, 64, 65, 129, 300}) {
    SCOPED_TRACE(length);
    expect_agrees({make_shape(2, 2, 16), make_starts({length}), {}});
  }
}

TEST(Attention, AgreesAtAllHeadWidths) {
  for (std::int64_t head_dim : {1, 5, 8, 16, 20, 24, 32, 40, 64, 80, 128, 130, 256}) {
    SCOPED_TRACE(head_dim);
    expect_agrees({make_shape(2, 1, head_dim), make_starts({37, 70}), {}});
  }
}

TEST(Attention, AgreesWithSharedKeyHeadsAndPackedSequences) {
  for (std::int64_t kv_heads : {1, 3, 9}) {
    SCOPED_TRACE(kv_heads);
    expect_agrees({make_shape(9, kv_heads, 16), make_starts({1, 65, 24, 130, 64, 3}), {}});
  }
}

TEST(Attention, AgreesWithEmptySequences) {
  expect_agrees({make_shape(2, 2, 8), make_starts({0, 5, 0, 0, 70, 0}), {}});
}

TEST(Attention, AgreesWithWindows) {
  for (std::int64_t window : {1, 2, 7, 31, 32, 33, 64, 65, 100, 299, 300, 1000}) {
    SCOPED_TRACE(window);
    expect_agrees({make_shape(2, 1, 16, window), make_starts({300, 129, 20}), {}});
  }
}

TEST(Attention, AgreesWithDropout) {
  expect_agrees({make_shape(4, 2, 16), make_starts({70, 1, 131}), make_dropout(0.1f, {8, 2, 5})});
  expect_agrees(
      {make_shape(2, 1, 8, 40), make_starts({33, 150}), make_dropout(0.5f, {1u << 31, 0})});
}

TEST(Attention, GivesTheSameBitsWithAnyNumberOfThreads) {
  const Reference r{make_shape(6, 3, 16, 90), make_starts({200, 129}), make_dropout(0.2f, {1, 2})};
  const Inputs in(r);
  const auto bits_with = [&](int threads) {
    const Threads scope(threads);
    return run(r, in.q, in.k, in.v, in.dout);
  };
  const Results one = bits_with(1);
  for (int threads : {2, 5, 16}) {  // 6 pairs: one pass with 1 and 2 threads, two with 5 and 16
    const Results many = bits_with(threads);
    EXPECT_EQ(one.out, many.out);
    EXPECT_EQ(one.dq, many.dq);
    EXPECT_EQ(one.dk, many.dk);
    EXPECT_EQ(one.dv, many.dv);
  }
}

TEST(Attention, SurvivesLargeScores) {
  const Reference r{make_shape(1, 1, 4), make_starts({80}), {}};
  Inputs in(r);
  for (double& x : in.q) x *= 300;
  Doubles out, lse;
  r.forward(in.q, in.k, in.v, out, lse);
  const Results got = run(r, in.q, in.k, in.v, in.dout);
  for (std::size_t i = 0; i < lse.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got.lse[i]));
    ASSERT_TRUE(std::isfinite(got.dq[i]));
  }
  // Scores near 1000 have an f32 rounding error near 1e-4.
  EXPECT_LT(largest_difference(got.out,
                               [&] {
                                 Doubles safe = out;
                                 for (std::size_t i = 0; i < safe.size(); ++i)
                                   if (!std::isfinite(safe[i])) safe[i] = got.out[i];
                                 return safe;
                               }()),
            2e-3);
}

TEST(Attention, PassesNaNOn) {
  const Reference r{make_shape(1, 1, 4), make_starts({10}), {}};
  Inputs in(r);
  in.k[2 * 4] = NAN;
  const Results got = run(r, in.q, in.k, in.v, in.dout);
  EXPECT_TRUE(std::isfinite(got.out[1 * 4]));
  EXPECT_TRUE(std::isnan(got.out[2 * 4]));
  EXPECT_TRUE(std::isnan(got.out[9 * 4]));
}

// With v the identity, the output of a head is its row of dropped-out probabilities.
std::vector<float> probabilities(const Reference& r, std::int64_t first_row, std::int64_t length) {
  const Inputs in(r);
  Doubles v(in.v.size(), 0.0);
  for (std::int64_t i = 0; i < length; ++i)
    for (std::int64_t h = 0; h < r.shape.kv_heads; ++h)
      v[static_cast<std::size_t>((first_row + i) * r.kv_width() + h * r.shape.head_dim + i)] = 1.0;
  const Results got = run(r, in.q, in.k, v, in.dout);
  return {got.out.begin() + first_row * r.width(),
          got.out.begin() + (first_row + length) * r.width()};
}

std::vector<bool> survivors(const std::vector<float>& p) {
  std::vector<bool> alive;
  for (float x : p) alive.push_back(x > 0);
  return alive;
}

TEST(AttentionDropout, DropsTheShareAndScalesTheRest) {
  const std::int64_t length = 96;
  const float probability = 0.25f;
  Reference r{make_shape(8, 8, length), make_starts({96}), make_dropout(probability, {3})};
  const auto dropped = probabilities(r, 0, length);
  r.dropout.probability = 0;
  const auto whole = probabilities(r, 0, length);
  double visible = 0, alive = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (whole[i] == 0) continue;
    ++visible;
    if (dropped[i] == 0) continue;
    ++alive;
    EXPECT_NEAR(dropped[i] * (1 - probability), whole[i], 1e-6f * whole[i] + 1e-9f);
  }
  ASSERT_EQ(visible, 8 * length * (length + 1) / 2);
  const double deviation = std::sqrt(probability * (1 - probability) / visible);
  EXPECT_NEAR(alive / visible, 1 - probability, 4 * deviation);
}

TEST(AttentionDropout, MaskFollowsTheSampleThroughAnyPacking) {
  const std::int64_t length = 70;
  const Reference alone{make_shape(2, 2, length), make_starts({70}), make_dropout(0.4f, {42})};
  const Reference packed{make_shape(2, 2, length), make_starts({9, 70, 100}),
                         make_dropout(0.4f, {17, 42, 1})};
  const auto mask = survivors(probabilities(alone, 0, length));
  EXPECT_EQ(mask, survivors(probabilities(packed, 9, length)));
  const Reference other{make_shape(2, 2, length), make_starts({70}), make_dropout(0.4f, {43})};
  EXPECT_NE(mask, survivors(probabilities(other, 0, length)));
}

TEST(AttentionDropout, MaskFollowsTheHeadThroughAnySplit) {
  const std::int64_t length = 40;
  Reference whole{make_shape(4, 4, length), make_starts({40}), make_dropout(0.4f, {5})};
  Reference half{make_shape(2, 2, length), make_starts({40}), make_dropout(0.4f, {5})};
  half.dropout.first_head = 2;
  const auto all = survivors(probabilities(whole, 0, length));
  const auto upper = survivors(probabilities(half, 0, length));
  const auto columns = static_cast<std::size_t>(length);
  for (std::size_t i = 0; i < columns; ++i)
    for (std::size_t c = 0; c < 2 * columns; ++c)
      ASSERT_EQ(all[i * 4 * columns + 2 * columns + c], upper[i * 2 * columns + c]);
}

void expect_decodes(const AttentionShape& shape) {
  const auto device = make_test_device(std::size_t{256} << 20);
  const std::vector<std::int32_t> lengths{1, 300, 256, 17, 700}, slots{4, 0, 5, 2, 1};
  const std::int64_t capacity = 701, kv = shape.kv_heads * shape.head_dim,
                     width = shape.heads * shape.head_dim;
  const Doubles keys = random_values(6 * capacity * kv, 1),
                values = random_values(6 * capacity * kv, 2), queries = random_values(5 * width, 3);
  const Tensor out = strided(*device, 5, width, {});
  kernels::attention_decode(shape, slots, lengths, strided(*device, 5, width, queries),
                            Tensor::from_host(*device, {6, capacity, kv}, narrow(keys)),
                            Tensor::from_host(*device, {6, capacity, kv}, narrow(values)), out);
  const std::vector<float> got = to_host(out);
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const std::int64_t first = slots[s] * capacity * kv, count = lengths[s] * kv;
    const Doubles k(keys.begin() + first, keys.begin() + first + count),
        v(values.begin() + first, values.begin() + first + count);
    Doubles q(static_cast<std::size_t>(lengths[s] * width), 0.0), want, lse;
    const auto query = queries.begin() + static_cast<std::int64_t>(s) * width;
    std::copy(query, query + width, q.end() - width);
    Reference{shape, make_starts({lengths[s]}), {}}.forward(q, k, v, want, lse);
    const auto row = got.begin() + static_cast<std::int64_t>(s) * width;
    EXPECT_LT(largest_difference({row, row + width}, {want.end() - width, want.end()}), 2e-6) << s;
  }
}

TEST(AttentionDecode, AgreesWithTheLastRowOfTheForward) {
  for (std::int64_t window : {0, 50}) expect_decodes(make_shape(6, 2, 20, window));
}

TEST(AttentionDecode, AgreesForAllHeadWidths) {
  for (std::int64_t head_dim : {3, 32, 64, 80, 256}) {
    SCOPED_TRACE(head_dim);
    expect_decodes(make_shape(2, 1, head_dim));
  }
}

TEST(AttentionDecode, AgreesForManyHeadsOfOneKeyHead) {
  expect_decodes(make_shape(14, 2, 8));
}

}  // namespace
}  // namespace fathom::test
