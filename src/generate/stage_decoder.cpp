#include "generate/stage_decoder.h"

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/rope.h"

namespace fathom::generate {
namespace {

Tensor upload(Device& device, const std::vector<std::int32_t>& values) {
  return Tensor::from_host(device, {static_cast<std::int64_t>(values.size())},
                           std::span<const std::int32_t>(values));
}

// The attention of one step in any block, by the cache of the block or of `layer`.
struct CachedAttention {
  const model::Stage& stage;
  KvCache& cache;
  Step step;
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
    const std::int64_t prompts = step.prompt_rows(), running = step.rows() - prompts;
    if (prompts > 0) {
      const Tensor lse = Tensor::empty(qkv.device(), {prompts, shape.heads});
      kernels::attention_forward(shape, step.prompt_starts, {}, queries.slice_rows(0, prompts),
                                 keys.slice_rows(0, prompts), values.slice_rows(0, prompts),
                                 out.slice_rows(0, prompts), lse);
    }
    if (running > 0) {
      const KvCache::Layer& seen = cache.layer(cached);
      kernels::attention_decode(shape, step.slots, step.lengths,
                                queries.slice_rows(prompts, running), seen.keys, seen.values,
                                out.slice_rows(prompts, running));
    }
    return out;
  }
};

// Rows of x by index; x itself if the index names all of them.
Tensor rows_of(const Tensor& x, const std::vector<std::int32_t>& index) {
  const auto count = static_cast<std::int64_t>(index.size());
  if (count == x.rows()) return x;
  const Tensor picked = Tensor::empty(x.device(), {count, x.columns()});
  kernels::gather_rows(x, upload(x.device(), index), picked);
  return picked;
}

Tensor stack(const Tensor& top, const std::vector<Tensor>& below) {
  if (below.empty()) return top;
  std::int64_t rows = top.rows();
  for (const Tensor& part : below) rows += part.rows();
  const Tensor all = Tensor::empty(top.device(), {rows, top.columns()});
  kernels::copy(top, all.slice_rows(0, top.rows()));
  std::int64_t at = top.rows();
  for (const Tensor& part : below) {
    kernels::copy(part, all.slice_rows(at, part.rows()));
    at += part.rows();
  }
  return all;
}

}  // namespace

StageDecoder::StageDecoder(const model::Stage& stage, std::int64_t slots, std::int64_t capacity,
                           const methods::mode::LateVote* vote)
    : stage_(stage), vote_(vote), cache_(stage, slots, capacity), capacity_(capacity) {
  if (stage.extension() != nullptr) state_ = stage.extension()->begin_decoding();
  if (vote_ == nullptr) return;
  for (const methods::KeyState& state : vote_->site().states) late_.push_back(state.layer);
}

std::int64_t StageDecoder::late_below(std::int64_t layer) const {
  return std::lower_bound(late_.begin(), late_.end(), layer) - late_.begin();
}

std::int64_t StageDecoder::input_rows(const Step& step) const {
  return step.rows() +
         late_below(stage_.plan().first_layer) * static_cast<std::int64_t>(step.scored_rows.size());
}

model::Pass StageDecoder::pass_of(const Step& step, KvCache& cache,
                                  std::optional<std::int64_t> layer) {
  Device& device = stage_.device();
  auto rows = std::make_shared<autograd::TokenRows>();
  rows->ids = upload(device, step.ids);
  rows->positions = upload(device, step.positions);
  for (std::size_t p = 1; p < step.prompt_starts.size(); ++p)
    rows->prompts.push_back(
        {step.prompt_starts[p - 1], step.prompt_starts[p] - step.prompt_starts[p - 1]});
  rows->starts = step.prompt_starts;
  for (std::int64_t row = step.prompt_rows(); row < step.rows(); ++row)
    rows->starts.push_back(static_cast<std::int32_t>(row + 1));
  model::Pass pass;
  pass.rows = rows;
  pass.state = state_;
  for (const autograd::PromptRows& prompt : rows->prompts)
    pass.slots.push_back(static_cast<std::int32_t>(
        step.cache_rows[static_cast<std::size_t>(prompt.first)] / capacity_));
  pass.slots.insert(pass.slots.end(), step.slots.begin(), step.slots.end());
  pass.attend =
      CachedAttention{stage_, cache, step, rows->positions, upload(device, step.cache_rows), layer};
  return pass;
}

Tensor StageDecoder::run(const Step& step, const Tensor& input) {
  const model::StagePlan& plan = stage_.plan();
  model::Pass pass = pass_of(step, cache_, std::nullopt);
  pass.aside = [&](const std::vector<std::int64_t>& sequences, std::int64_t layer) {
    if (!aside_) aside_.emplace(stage_, cache_.slots(), cache_.capacity());
    return pass_of(sequences_of(step, sequences), *aside_, layer);
  };
  std::vector<Tensor> late;
  // A stage's last state is what the next one begins with; the vote takes it there.
  const auto keep = [&](std::int64_t layer, const autograd::Var& state) {
    if (layer < plan.end_layer && std::binary_search(late_.begin(), late_.end(), layer))
      late.push_back(rows_of(state.value, step.scored_rows));
  };
  if (vote_ != nullptr) pass.tap = keep;
  if (plan.has_embedding) return stack(stage_.run_blocks(pass, stage_.embed(pass)).value, late);
  const autograd::Var x(input.slice_rows(0, step.rows()));
  if (input.rows() > step.rows())
    late.push_back(input.slice_rows(step.rows(), input.rows() - step.rows()));
  keep(plan.first_layer, x);
  return stack(stage_.run_blocks(pass, x).value, late);
}

Tensor StageDecoder::finish(const Step& step, const Tensor& hidden) const {
  const Tensor scored = rows_of(hidden.slice_rows(0, step.rows()), step.scored_rows);
  if (vote_ == nullptr) return stage_.finish({}, autograd::Var(scored)).value;
  const auto late = [&](std::int64_t layer) {
    return autograd::Var(
        hidden.slice_rows(step.rows() + late_below(layer) * scored.rows(), scored.rows()));
  };
  const autograd::Var normed = stage_.normalise({}, autograd::Var(scored));
  return mix(nullptr, vote_->votes(stage_, {}, late, normed)).value;
}

}  // namespace fathom::generate
