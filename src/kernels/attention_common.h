#pragma once

// What the forward and backward pass of attention share on the CPU: the tiles of the packed
// sequences and the dropout mask.

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/attention_tiles.h"

namespace fathom::kernels::tiles {

/// f32 rows of a tensor on this device.
struct Rows {
  Rows() = default;
  explicit Rows(const Tensor& tensor) : data(tensor.ptr<float>()), stride(tensor.row_stride()) {}
  float* at(std::int64_t row, std::int64_t column) const { return data + row * stride + column; }

  float* data = nullptr;
  std::int64_t stride = 0;
};

/// A run of at most kTile positions of one sequence.
struct Block {
  std::int32_t sequence = 0;
  std::int64_t first_row = 0;  ///< of the sequence, in the operands
  std::int64_t begin = 0;      ///< position in the sequence
  std::int64_t count = 0;
  std::int64_t row() const { return first_row + begin; }
};

/// A block of one head.
struct HeadBlock {
  Block block;
  std::int64_t head = 0;
};

/// The blocks of all sequences and heads, the longest sequences first. Those of one head of one
/// sequence follow each other, so that its keys stay in the cache, in order or `backwards`.
std::vector<HeadBlock> head_blocks(const std::vector<std::int32_t>& starts, std::int64_t heads,
                                   bool backwards);

/// The block that holds position `begin` (a multiple of kTile) of the same sequence.
Block block_at(const Block& other, std::int64_t begin, const std::vector<std::int32_t>& starts);

/// First position, a multiple of kTile, of the keys that a block of queries sees.
std::int64_t first_key(const AttentionShape& shape, const Block& queries);

Band band_of(const AttentionShape& shape, const Block& queries, const Block& keys);

/// Overwrites by -3e38 the scores of pairs that do not see each other, within the panel at `query`.
void hide_unseen(const Band& band, Range keys, std::int64_t query, float* scores);

/// The survival of the probabilities of one head of one sequence.
class HeadDropout {
 public:
  HeadDropout(const AttentionDropout& dropout, std::int32_t sequence, std::int64_t head);
  bool active() const { return probability_ > 0.0f; }
  /// mask[keys, kPanel] at column `query` = 0 or 1 / (1 - probability); key.begin is a multiple
  /// of 4.
  void mask(const Block& queries, const Block& keys, Range key, std::int64_t query,
            float* mask) const;

 private:
  float probability_, keep_scale_;
  std::uint32_t key0_, key1_, sample_ = 0, place_ = 0;
};

/// Carves one thread's part of the scratch into tiles.
class Scratch {
 public:
  explicit Scratch(float* memory) : next_(memory) {}
  float* take(std::int64_t floats) {
    float* taken = next_;
    next_ += round_up(floats, 16);
    return taken;
  }

 private:
  float* next_;
};

}  // namespace fathom::kernels::tiles
