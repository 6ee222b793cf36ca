#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "autograd/tape.h"
#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/norm.h"

// The differentiable operations of a transformer. Each appends its backward step to the tape unless
// the tape is null or nothing before it is trained. n is the number of tokens of a micro-batch, all
// sequences packed one after the other.

namespace fathom::autograd {

/// How a weight matrix lies in memory.
enum class WeightLayout {
  out_in,  ///< [out, in], y = x W^T: everything but GPT-2
  in_out,  ///< [in, out], y = x W: GPT-2's Conv1D
};

/// y [n, out] = x [n, in] W (+ bias). A frozen weight keeps no input; a bf16 weight is always
/// frozen. What is kept is in the precision of the device's products. Exact factors are so in y
/// alone: gradients are rounded as all others are.
Var linear(Tape* tape, const Var& x, const Var& weight, WeightLayout layout, const Var& bias = {},
           kernels::Factors factors = kernels::Factors::rounded);

/// y = norm(x); see kernels/norm.h.
Var norm(Tape* tape, kernels::NormKind kind, float eps, const Var& x, const Var& weight,
         const Var& bias);

/// y = act(x + bias).
Var activation(Tape* tape, kernels::Activation kind, const Var& x, const Var& bias = {});

/// y [n, f] = act(gate) * up of x = [gate | up].
Var gated(Tape* tape, kernels::Activation kind, const Var& x);

/// y = residual + dropout(delta + bias); residual and bias may be undefined.
Var residual(Tape* tape, const Var& residual, const Var& delta, const Var& bias,
             const kernels::Dropout& dropout);

/// The rotary tables of a model: cosines and sines [max_positions, head_dim / 2].
struct RopeTables {
  Tensor cosines, sines;
};

/// The rows of a prompt: all tokens before the first one that is supervised or generated.
struct PromptRows {
  std::int64_t first = 0, count = 0;
};

/// What one micro-batch tells attention and the embeddings: token ids and positions, and where each
/// sequence starts (one entry more than there are sequences).
struct TokenRows {
  Tensor ids;                             ///< i32 [n]
  Tensor positions;                       ///< i32 [n], from 0 in each sequence
  Tensor samples;                         ///< i32 [n], the global number of the row's sequence
  std::vector<std::int32_t> starts;       ///< [b + 1]
  std::vector<std::uint32_t> sample_ids;  ///< [b]
  std::vector<PromptRows> prompts;        ///< where each prompt lies, for edits of its states
};

/// Causal self-attention from the fused projection qkv [n, (heads + 2 kv_heads) head_dim], whose
/// columns are all query heads, all key heads, all value heads. With rope, queries and keys are
/// rotated first, in place. Returns [n, heads * head_dim].
Var attention(Tape* tape, const kernels::AttentionShape& shape, const Var& qkv,
              const TokenRows& rows, const RopeTables* rope,
              const kernels::AttentionDropout& dropout);

/// Rows of the table (entries [first_id, ...) of the vocabulary on this rank) by token id; ids of
/// other ranks give zero rows.
Var embedding(Tape* tape, const Var& table, std::int64_t first_id, const Tensor& ids);

/// a + b.
Var add(Tape* tape, const Var& a, const Var& b);

/// Rows of x by index; an index may not repeat.
Var gather(Tape* tape, const Var& x, const Tensor& rows);

}  // namespace fathom::autograd
