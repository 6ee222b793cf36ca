#include "model/stage.h"

#include "autograd/adapter_operations.h"
#include "comm/differentiable.h"

namespace fathom::model {

using autograd::Tape;
using autograd::Var;
using autograd::WeightLayout;

std::uint32_t dropout_site(std::int64_t layer, DropoutSite site) {
  return static_cast<std::uint32_t>(layer) * 4 + static_cast<std::uint32_t>(site);
}

// Dropout belongs to training passes, whether or not this call is recorded: a block that will be
// recomputed runs forward without a tape, and must drop the same.
kernels::Dropout rows_dropout(const Pass& pass, float probability, std::uint32_t site) {
  if (pass.tape == nullptr || probability <= 0) return {};
  return {.probability = probability,
          .key0 = pass.dropout.seed,
          .key1 = pass.dropout.step,
          .site = site,
          .positions = pass.rows->positions,
          .samples = pass.rows->samples};
}

namespace {

// What is recorded after this call is what makes the bucket's gradients.
void watch_bucket(const Pass& pass, int bucket) {
  if (pass.tape == nullptr || !pass.bucket_done) return;
  pass.tape->on_backward([done = pass.bucket_done, bucket] { done(bucket); });
}

}  // namespace

Var Stage::embed(const Pass& pass) const {
  watch_bucket(pass, embedding_bucket_);
  const autograd::TokenRows& rows = *pass.rows;
  Var x = autograd::embedding(pass.tape, embedding_, plan_.shard.first_vocab, rows.ids);
  x = comm::sum_over_group(pass.tape, tp_, x);
  if (spec_.projected()) x = autograd::linear(pass.tape, x, project_in_, WeightLayout::out_in);
  const auto dropout =
      rows_dropout(pass, pass.dropout.embedding, dropout_site(0, DropoutSite::embedding));
  if (spec_.learned_positions) {
    const Var offset =
        autograd::embedding(pass.tape, positions_, -spec_.position_offset, rows.positions);
    x = autograd::add(pass.tape, x, offset);
  }
  if (dropout.probability > 0) x = autograd::residual(pass.tape, {}, x, {}, dropout);
  if (pass.tap) pass.tap(0, x);
  return x;
}

Var Stage::run_blocks(const Pass& pass, const Var& x) const {
  return run_blocks(pass, x, plan_.first_layer, plan_.end_layer);
}

Var Stage::run_blocks(const Pass& pass, const Var& input, std::int64_t first,
                      std::int64_t end) const {
  Var x = input;
  for (std::int64_t layer = first; layer < end; ++layer) {
    const Block& weights = block_of(layer);
    watch_bucket(pass, weights.bucket);
    // A frozen block behind frozen ones keeps nothing and is never played back.
    const bool trains = parameters_.bucket(weights.bucket).count > 0 || weights.attention_control ||
                        weights.mlp_control || weights.control;
    if (pass.recompute && (x.needs_grad() || trains)) {
      // The copy of the pass keeps the micro-batch alive until it is replayed.
      const Pass again = pass;
      x = autograd::recompute(pass.tape, x, [this, &weights, again](Tape* tape, const Var& in) {
        return controlled_block(weights, again, tape, in);
      });
    } else {
      x = controlled_block(weights, pass, pass.tape, x);
    }
    if (pass.tap) pass.tap(weights.layer + 1, x);
  }
  return x;
}

Tensor Stage::keys_values(const Pass& pass, std::int64_t layer, const Tensor& x) const {
  const Block& weights = block_of(layer);
  const kernels::AttentionShape& shape = weights.attention;
  const std::int64_t queries = shape.heads * shape.head_dim;
  const std::int64_t wanted = 2 * shape.kv_heads * shape.head_dim;
  FATHOM_CHECK(pass.tape == nullptr && spec_.pre_norm, "keys and values of an earlier state");
  const Var in = normed(nullptr, weights.attention_norm, Var(x));
  // An adapter changes the fused product.
  if (weights.qkv.adapter)
    return multiply(weights.qkv, pass, nullptr, in, true).value.slice_columns(queries, wanted);
  const WeightLayout layout = names_of(spec_.family).layout;
  const Tensor& whole = weights.qkv.weight.value;
  const Var part(layout == WeightLayout::out_in ? whole.slice_rows(queries, wanted)
                                                : whole.slice_columns(queries, wanted));
  const Var bias =
      weights.qkv.bias.defined() ? Var(weights.qkv.bias.value.slice_rows(queries, wanted)) : Var();
  return autograd::linear(nullptr, in, part, layout, bias).value;
}

Var Stage::normalise(const Pass& pass, const Var& x) const {
  watch_bucket(pass, head_bucket_);
  return spec_.final_norm ? normed(pass.tape, final_norm_, x) : x;
}

Var Stage::project(const Pass& pass, const Var& x) const {
  if (!spec_.projected()) return x;
  return autograd::linear(pass.tape, x, project_out_, WeightLayout::out_in);
}

Var Stage::normed(Tape* tape, const NormWeights& weights, const Var& x) const {
  return autograd::norm(tape, spec_.norm, spec_.norm_eps, x, weights.weight, weights.bias);
}

Var Stage::run_block(std::int64_t layer, const Pass& pass, Tape* tape, const Var& x) const {
  return block(block_of(layer), pass, tape, x);
}

Var Stage::controlled_block(const Block& weights, const Pass& pass, Tape* tape,
                            const Var& x) const {
  const Var out = block(weights, pass, tape, x);
  return weights.control ? weights.control->apply(pass, tape, x, out) : out;
}

Var Stage::block(const Block& weights, const Pass& pass, Tape* tape, const Var& input) const {
  const auto merge = [&](const Var& x, const Var& branch, const LinearWeights& last,
                         DropoutSite site) {
    const auto dropout =
        rows_dropout(pass, pass.dropout.residual, dropout_site(weights.layer + 1, site));
    return autograd::residual(tape, x, branch, last.bias, dropout);
  };
  const auto controlled = [&](const std::unique_ptr<ResidualControl>& control, const Var& x,
                              const Var& sum) {
    return control ? control->apply(pass, tape, x, sum) : sum;
  };
  const auto attention = [&](const Var& x, const Var& in) {
    return merge(x, attention_branch(weights, pass, tape, in), weights.attention_out,
                 DropoutSite::attention_out);
  };
  const auto mlp = [&](const Var& x, const Var& in) {
    return merge(x, mlp_branch(weights, pass, tape, in), weights.mlp_out, DropoutSite::mlp_out);
  };
  Var middle, out;
  if (spec_.pre_norm) {
    middle = controlled(weights.attention_control, input,
                        attention(input, normed(tape, weights.attention_norm, input)));
    out = controlled(weights.mlp_control, middle,
                     mlp(middle, normed(tape, weights.mlp_norm, middle)));
  } else {
    middle = controlled(weights.attention_control, input,
                        normed(tape, weights.attention_norm, attention(input, input)));
    out = controlled(weights.mlp_control, middle,
                     normed(tape, weights.mlp_norm, mlp(middle, middle)));
  }
  return weights.edit ? weights.edit->apply(pass, tape, out) : out;
}

// An adapter sees the product before the bias: what scales outputs must not scale that.
Var Stage::multiply(const LinearWeights& weights, const Pass& pass, Tape* tape, const Var& x,
                    bool with_bias) const {
  const WeightLayout layout = names_of(spec_.family).layout;
  const Var bias = with_bias ? weights.bias : Var();
  if (!weights.adapter) return autograd::linear(tape, x, weights.weight, layout, bias);
  const Var y =
      weights.adapter->apply(pass, tape, x, autograd::linear(tape, x, weights.weight, layout));
  return bias.defined() ? autograd::add_bias(tape, y, bias) : y;
}

Var Stage::attention_branch(const Block& weights, const Pass& pass, Tape* tape,
                            const Var& x) const {
  const Var in = comm::copy_to_group(tape, tp_, x);
  const Var qkv = multiply(weights.qkv, pass, tape, in, true);
  kernels::AttentionDropout dropout;
  if (pass.tape != nullptr && pass.dropout.attention > 0) {
    dropout = {.probability = pass.dropout.attention,
               .key0 = pass.dropout.seed,
               .key1 = pass.dropout.step,
               .site = dropout_site(weights.layer + 1, DropoutSite::attention),
               .first_head = plan_.shard.first_head,
               .samples = pass.rows->sample_ids};
  }
  FATHOM_CHECK(!pass.attend || tape == nullptr, "attention to a cache has no gradient");
  const Var mixed =
      pass.attend ? Var(pass.attend(weights, qkv.value))
                  : autograd::attention(tape, weights.attention, qkv, *pass.rows, rope(), dropout);
  const Var out = multiply(weights.attention_out, pass, tape, mixed, false);
  return comm::sum_over_group(tape, tp_, out);
}

Var Stage::mlp_branch(const Block& weights, const Pass& pass, Tape* tape, const Var& x) const {
  const Var in = comm::copy_to_group(tape, tp_, x);
  Var wide;
  if (spec_.gated) {
    const Var both = multiply(weights.mlp_in, pass, tape, in, true);
    wide = autograd::gated(tape, spec_.activation, both);
  } else {
    const Var before = multiply(weights.mlp_in, pass, tape, in, false);
    wide = autograd::activation(tape, spec_.activation, before, weights.mlp_in.bias);
  }
  const Var out = multiply(weights.mlp_out, pass, tape, wide, false);
  return comm::sum_over_group(tape, tp_, out);
}

}  // namespace fathom::model
