#include "generate/stage_decoder.h"

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/rope.h"

namespace fathom::generate {
namespace {

Tensor upload(Device& device, const std::vector<std::int32_t>& values) {
  return Tensor::from_host(device, {static_cast<std::int64_t>(values.size())},
                           std::span<const std::int32_t>(values));
}

// The attention of one step in any block.
struct CachedAttention {
  const model::Stage& stage;
  KvCache& cache;
  const Step& step;
  Tensor positions, cache_rows;

  Tensor operator()(const model::Block& block, const Tensor& qkv) const {
    const kernels::AttentionShape& shape = block.attention;
    const std::int64_t q = shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
    if (const auto* rope = stage.rope())
      kernels::rotate(qkv.slice_columns(0, q + kv), shape.head_dim, positions, rope->cosines,
                      rope->sines, 1.0f);
    const Tensor queries = qkv.slice_columns(0, q), keys = qkv.slice_columns(q, kv),
                 values = qkv.slice_columns(q + kv, kv);
    cache.store(block.layer, keys, values, cache_rows);
    const Tensor out = Tensor::empty(qkv.device(), {qkv.rows(), q});
    const std::int64_t prompts = step.prompt_rows(), running = step.rows() - prompts;
    if (prompts > 0) {
      const Tensor lse = Tensor::empty(qkv.device(), {prompts, shape.heads});
      kernels::attention_forward(shape, step.prompt_starts, {}, queries.slice_rows(0, prompts),
                                 keys.slice_rows(0, prompts), values.slice_rows(0, prompts),
                                 out.slice_rows(0, prompts), lse);
    }
    if (running > 0) {
      const KvCache::Layer& layer = cache.layer(block.layer);
      kernels::attention_decode(shape, step.slots, step.lengths,
                                queries.slice_rows(prompts, running), layer.keys, layer.values,
                                out.slice_rows(prompts, running));
    }
    return out;
  }
};

}  // namespace

StageDecoder::StageDecoder(const model::Stage& stage, std::int64_t slots, std::int64_t capacity)
    : stage_(stage), cache_(stage, slots, capacity) {}

Tensor StageDecoder::run(const Step& step, const Tensor& input) {
  Device& device = stage_.device();
  auto rows = std::make_shared<autograd::TokenRows>();
  rows->ids = upload(device, step.ids);
  rows->positions = upload(device, step.positions);
  for (std::size_t p = 1; p < step.prompt_starts.size(); ++p)
    rows->prompts.push_back(
        {step.prompt_starts[p - 1], step.prompt_starts[p] - step.prompt_starts[p - 1]});
  model::Pass pass;
  pass.rows = rows;
  pass.attend =
      CachedAttention{stage_, cache_, step, rows->positions, upload(device, step.cache_rows)};
  const autograd::Var x = stage_.plan().has_embedding ? stage_.embed(pass) : autograd::Var(input);
  return stage_.run_blocks(pass, x).value;
}

Tensor StageDecoder::finish(const Step& step, const Tensor& hidden) const {
  Tensor scored = hidden;
  if (static_cast<std::int64_t>(step.scored_rows.size()) != step.rows()) {
    const Tensor rows = upload(hidden.device(), step.scored_rows);
    scored = Tensor::empty(hidden.device(), {rows.elements(), hidden.columns()});
    kernels::gather_rows(hidden, rows, scored);
  }
  return stage_.finish({}, autograd::Var(scored)).value;
}

}  // namespace fathom::generate
