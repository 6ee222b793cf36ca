#include "generate/kv_cache.h"

#include "kernels/elementwise.h"

namespace fathom::generate {

KvCache::KvCache(const model::Stage& stage, std::int64_t slots, std::int64_t capacity)
    : slots_(slots), capacity_(capacity), first_layer_(stage.plan().first_layer) {
  for (const model::Block& block : stage.blocks()) {
    const Shape shape{slots, capacity, block.attention.kv_heads * block.attention.head_dim};
    layers_.push_back({Tensor::empty(stage.device(), shape), Tensor::empty(stage.device(), shape)});
  }
}

const KvCache::Layer& KvCache::layer(std::int64_t number) const {
  return layers_.at(static_cast<std::size_t>(number - first_layer_));
}

void KvCache::store(std::int64_t number, const Tensor& keys, const Tensor& values,
                    const Tensor& rows) {
  const Layer& to = layer(number);
  const Shape entries{slots_ * capacity_, to.keys.columns()};
  kernels::scatter_rows(keys, rows, to.keys.view(entries));
  kernels::scatter_rows(values, rows, to.values.view(entries));
}

}  // namespace fathom::generate
