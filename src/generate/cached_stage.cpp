#include "generate/cached_stage.h"

#include "generate/row_sets.h"
#include "kernels/attention.h"
#include "kernels/rope.h"

namespace fathom::generate {
namespace {

// The attention of some rows in any block, by the cache of the block or of `layer`.
struct CachedAttention {
  const model::Stage& stage;
  KvCache& cache;
  BlockRows rows;
  Tensor positions, cache_rows;
  std::optional<std::int64_t> layer;

  Tensor operator()(const model::Block& block, const Tensor& qkv) const {
    const kernels::AttentionShape& shape = block.attention;
    const std::int64_t q = shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
    if (const auto* rope = stage.rope())
      kernels::rotate(qkv.slice_columns(0, q + kv), shape.head_dim, positions, rope->cosines,
                      rope->sines, 1.0f);
    const Tensor queries = qkv.slice_columns(0, q), keys = qkv.slice_columns(q, kv),
                 values = qkv.slice_columns(q + kv, kv);
    const std::int64_t cached = layer.value_or(block.layer);
    cache.store(cached, keys, values, cache_rows);
    const Tensor out = Tensor::empty(qkv.device(), {qkv.rows(), q});
    const std::int64_t prompts = rows.prompt_rows(), running = rows.rows() - prompts;
    if (prompts > 0) {
      const Tensor lse = Tensor::empty(qkv.device(), {prompts, shape.heads});
      kernels::attention_forward(shape, rows.prompt_starts, {}, queries.slice_rows(0, prompts),
                                 keys.slice_rows(0, prompts), values.slice_rows(0, prompts),
                                 out.slice_rows(0, prompts), lse);
    }
    if (running > 0) {
      const KvCache::Layer& seen = cache.layer(cached);
      kernels::attention_decode(shape, rows.slots, rows.lengths,
                                queries.slice_rows(prompts, running), seen.keys, seen.values,
                                out.slice_rows(prompts, running));
    }
    return out;
  }
};

}  // namespace

CachedStage::CachedStage(const model::Stage& stage, std::int64_t slots, std::int64_t capacity)
    : stage_(stage), cache_(stage, slots, capacity) {
  if (stage.extension() != nullptr) state_ = stage.extension()->begin_decoding();
}

model::Pass CachedStage::pass(const BlockRows& rows, const std::vector<std::int32_t>& ids) {
  model::Pass pass = pass_in(cache_, rows, ids, std::nullopt);
  pass.aside = [this, rows](const std::vector<std::int64_t>& sequences, std::int64_t layer) {
    if (!aside_) aside_.emplace(stage_, cache_.slots(), cache_.capacity());
    return pass_in(*aside_, sequences_of(rows, sequences), {}, layer);
  };
  return pass;
}

model::Pass CachedStage::pass_in(KvCache& cache, const BlockRows& rows,
                                 const std::vector<std::int32_t>& ids,
                                 std::optional<std::int64_t> layer) {
  Device& device = stage_.device();
  auto tokens = std::make_shared<autograd::TokenRows>();
  if (!ids.empty()) tokens->ids = upload(device, ids);
  tokens->positions = upload(device, rows.positions);
  const std::vector<std::int32_t>& starts = rows.prompt_starts;
  for (std::size_t p = 1; p < starts.size(); ++p)
    tokens->prompts.push_back({starts[p - 1], starts[p] - starts[p - 1]});
  tokens->starts = starts;
  for (std::int64_t row = rows.prompt_rows(); row < rows.rows(); ++row)
    tokens->starts.push_back(static_cast<std::int32_t>(row + 1));
  model::Pass pass;
  pass.rows = tokens;
  pass.state = state_;
  pass.slots = rows.prompt_slots;
  pass.slots.insert(pass.slots.end(), rows.slots.begin(), rows.slots.end());
  pass.attend = CachedAttention{
      stage_, cache, rows, tokens->positions, upload(device, rows.cache_rows), layer};
  return pass;
}

void CachedStage::store_keys_values(const BlockRows& rows, std::int64_t layer, const Tensor& x) {
  const Tensor both = stage_.keys_values({}, layer, x);
  const std::int64_t width = both.columns() / 2;
  const Tensor keys = both.slice_columns(0, width), values = both.slice_columns(width, width);
  if (const auto* rope = stage_.rope())
    kernels::rotate(keys, stage_.spec().head_dim, upload(stage_.device(), rows.positions),
                    rope->cosines, rope->sines, 1.0f);
  cache_.store(layer, keys, values, upload(stage_.device(), rows.cache_rows));
}

}  // namespace fathom::generate
