#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace fathom::kernels {

/// Causal attention over packed sequences: no padding, sequence b is rows
/// [starts[b], starts[b+1]) of every operand.
struct AttentionShape {
  std::int64_t heads = 0;  ///< query heads on this rank
  std::int64_t kv_heads =
      0;  ///< divides heads; query head h reads key/value head h * kv_heads / heads
  std::int64_t head_dim = 0;
  std::int64_t window =
      0;               ///< a query sees the last `window` keys, itself included; 0 = all before it
  float scale = 1.0f;  ///< of the scores, usually 1 / sqrt(head_dim)
};

/// Dropout of attention probabilities by counter-based random numbers: a probability survives as a
/// function of (key, sample, first_head + head, query position, key position) alone, whatever the
/// grid and the batch composition: by the word philox(key, {j / 4, i, sample, site | (first_head +
/// head + 1) << 16})[j % 4] for query i and key j of the sequence. The site is below 65536.
struct AttentionDropout {
  float probability = 0.0f;  ///< 0 = off
  std::uint32_t key0 = 0, key1 = 0;
  std::uint32_t site = 0;              ///< layer and place
  std::int64_t first_head = 0;         ///< global index of this rank's first head
  std::vector<std::uint32_t> samples;  ///< one per sequence
};

/// Throws Error(config) that says what the device lacks, unless it has kernels for heads of this
/// size: for a forward pass and decoding, and with `backward` for gradients too. To be asked before
/// anything is loaded; the CPU takes all sizes.
void require_attention(Device& device, std::int64_t head_dim, bool backward);

/// out [n, heads * head_dim] = softmax(scale q k^T) v per head; q [n, heads * head_dim],
/// k and v [n, kv_heads * head_dim]; lse [n, heads] receives the log-sum-exp of the scaled scores.
/// Operands may be column slices (row strides are honoured). `starts` has one entry more than there
/// are sequences and begins with 0.
void attention_forward(const AttentionShape& shape, const std::vector<std::int32_t>& starts,
                       const AttentionDropout& dropout, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Tensor& out, const Tensor& lse);

/// Gradients of the above: overwrites dq, dk, dv. Probabilities are recomputed from lse, so that
/// nothing of size [n, n] is kept.
void attention_backward(const AttentionShape& shape, const std::vector<std::int32_t>& starts,
                        const AttentionDropout& dropout, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Tensor& out, const Tensor& lse, const Tensor& dout,
                        const Tensor& dq, const Tensor& dk, const Tensor& dv);

/// Decoding: one new query per sequence against a cache. q [b, heads * head_dim]; keys and values
/// [slots, capacity, kv_heads * head_dim]; sequence i uses slot slots[i] and its first lengths[i]
/// entries, the newest being the query's own. out [b, heads * head_dim].
void attention_decode(const AttentionShape& shape, const std::vector<std::int32_t>& slots,
                      const std::vector<std::int32_t>& lengths, const Tensor& q, const Tensor& keys,
                      const Tensor& values, const Tensor& out);

}  // namespace fathom::kernels
