#pragma once

#include <cstdint>
#include <vector>

#include "model/stage.h"

namespace fathom::generate {

/// Rotated keys, and values, of every position that the layers of one stage have seen. A slot holds
/// one sequence; its positions lie one after the other. A sliding window keeps everything too:
/// attention then looks at the newest entries only.
class KvCache {
 public:
  /// Keys and values [slots, capacity, kv_heads * head_dim] of one layer, f32.
  struct Layer {
    Tensor keys, values;
  };

  /// Takes the memory from the stage's device; its content is unspecified.
  KvCache(const model::Stage& stage, std::int64_t slots, std::int64_t capacity);

  std::int64_t slots() const { return slots_; }
  std::int64_t capacity() const { return capacity_; }
  /// Of a layer of the model, which must be one of the stage's.
  const Layer& layer(std::int64_t number) const;

  /// Stores rows of keys and values [n, kv_heads * head_dim] of one layer at the entries
  /// rows[i] = slot * capacity + position.
  void store(std::int64_t number, const Tensor& keys, const Tensor& values, const Tensor& rows);

 private:
  std::int64_t slots_, capacity_, first_layer_;
  std::vector<Layer> layers_;
};

}  // namespace fathom::generate
