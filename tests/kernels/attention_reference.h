#pragma once

// Attention by its definition, in double and one score at a time.

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/philox.h"
#include "kernels/attention.h"

namespace fathom::test {

using Doubles = std::vector<double>;

struct Reference {
  kernels::AttentionShape shape;
  std::vector<std::int32_t> starts;
  kernels::AttentionDropout dropout;

  std::int64_t width() const { return shape.heads * shape.head_dim; }
  std::int64_t kv_width() const { return shape.kv_heads * shape.head_dim; }
  std::int64_t rows() const { return starts.back(); }

  double keep(std::size_t sequence, std::int64_t head, std::int64_t i, std::int64_t j) const {
    if (dropout.probability == 0.0f) return 1.0;
    const auto place = dropout.site | static_cast<std::uint32_t>(dropout.first_head + head + 1)
                                          << 16;
    const Philox words = philox(dropout.key0, dropout.key1, static_cast<std::uint32_t>(j / 4),
                                static_cast<std::uint32_t>(i), dropout.samples[sequence], place);
    const bool dropped = uniform01(words.v[j % 4]) < dropout.probability;
    return dropped ? 0.0 : 1.0 / (1.0 - static_cast<double>(dropout.probability));
  }

  /// Calls visit(sequence, head, row, first visible row, probabilities) for every query.
  template <typename Visit>
  void for_each_query(const Doubles& q, const Doubles& k, Visit visit) const {
    const std::int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads;
    for (std::size_t s = 0; s + 1 < starts.size(); ++s)
      for (std::int64_t h = 0; h < shape.heads; ++h)
        for (std::int64_t i = starts[s]; i < starts[s + 1]; ++i) {
          std::int64_t first = starts[s];
          if (shape.window > 0) first = std::max(first, i - shape.window + 1);
          Doubles p;
          double total = 0;
          for (std::int64_t j = first; j <= i; ++j) {
            double score = 0;
            for (std::int64_t c = 0; c < d; ++c)
              score += q[at(i * width() + h * d + c)] * k[at(j * kv_width() + h / group * d + c)];
            p.push_back(std::exp(shape.scale * score));
            total += p.back();
          }
          for (double& x : p) x /= total;
          visit(s, h, i, first, p, std::log(total));
        }
  }

  void forward(const Doubles& q, const Doubles& k, const Doubles& v, Doubles& out,
               Doubles& lse) const {
    out.assign(at(rows() * width()), 0.0);
    lse.assign(at(rows() * shape.heads), 0.0);
    const std::int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads;
    for_each_query(q, k,
                   [&](std::size_t s, std::int64_t h, std::int64_t i, std::int64_t first,
                       const Doubles& p, double log_sum) {
                     lse[at(i * shape.heads + h)] = log_sum;
                     for (std::int64_t j = first; j <= i; ++j) {
                       const double weight =
                           p[at(j - first)] * keep(s, h, i - starts[s], j - starts[s]);
                       for (std::int64_t c = 0; c < d; ++c)
                         out[at(i * width() + h * d + c)] +=
                             weight * v[at(j * kv_width() + h / group * d + c)];
                     }
                   });
  }

  void backward(const Doubles& q, const Doubles& k, const Doubles& v, const Doubles& dout,
                Doubles& dq, Doubles& dk, Doubles& dv) const {
    dq.assign(q.size(), 0.0), dk.assign(k.size(), 0.0), dv.assign(v.size(), 0.0);
    const std::int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads;
    for_each_query(q, k,
                   [&](std::size_t s, std::int64_t h, std::int64_t i, std::int64_t first,
                       const Doubles& p, double) {
                     Doubles dp(p.size());
                     double mean = 0;
                     const std::size_t query = at(i * width() + h * d);
                     for (std::int64_t j = first; j <= i; ++j) {
                       const std::size_t key = at(j * kv_width() + h / group * d);
                       const double mask = keep(s, h, i - starts[s], j - starts[s]);
                       for (std::size_t c = 0; c < at(d); ++c) {
                         dp[at(j - first)] += mask * dout[query + c] * v[key + c];
                         dv[key + c] += mask * p[at(j - first)] * dout[query + c];
                       }
                       mean += p[at(j - first)] * dp[at(j - first)];
                     }
                     for (std::int64_t j = first; j <= i; ++j) {
                       const std::size_t key = at(j * kv_width() + h / group * d);
                       const double ds =
                           shape.scale * p[at(j - first)] * (dp[at(j - first)] - mean);
                       for (std::size_t c = 0; c < at(d); ++c) {
                         dq[query + c] += ds * k[key + c];
                         dk[key + c] += ds * q[query + c];
                       }
                     }
                   });
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
};

}  // namespace fathom::test
