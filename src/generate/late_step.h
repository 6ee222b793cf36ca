#pragma once

#include <vector>

#include "generate/exit_ledger.h"

namespace fathom::generate {

/// Rows of a matrix of states, and what they are.
struct RowSet {
  std::vector<std::int32_t> index;
  BlockRows rows;
  bool empty() const { return index.empty(); }
};

/// The late layers of one stage.
struct LateBlocks {
  std::int64_t gate = 0, layers = 0;  ///< of the model, late layers are the blocks [gate, layers)
  std::int64_t begin = 0, end = 0;    ///< of them, the stage's
};

/// A step among the late layers of one stage. Its states are a matrix: the rows of new prompts, the
/// running ones that arrive with them, and those that waited here and move on.
class LateStep {
 public:
  /// `weights` [scored rows, k] of the late layers, as ExitGate gives them; `plan` as ExitLedger
  /// does. Slots of the cache have `capacity` entries. The step must outlive it.
  LateStep(const Step& step, const std::vector<LateRow>& plan, const LateBlocks& blocks,
           std::int64_t capacity, std::vector<float> weights);

  /// Rows of the matrix that come from below; the others are entering().
  std::int64_t arriving() const { return row_number(first_entering_); }
  RowSet entering() const;

  /// What runs through a block, and what only gives it keys and values.
  RowSet running(std::int64_t block) const;
  RowSet copying(std::int64_t block) const;

  /// What waits here from now on, and the rows of the matrix that the next stage gets.
  RowSet parking() const;
  std::vector<std::int32_t> leaving() const;

  /// The scored rows that a late layer, counted from 0, decides on; and where the matrix has them.
  std::vector<std::int32_t> decided_by(std::int64_t expert) const;
  std::vector<std::int32_t> rows_decided_by(std::int64_t expert) const;

  const std::vector<float>& weights() const { return weights_; }
  std::int64_t scored() const { return static_cast<std::int64_t>(step_.scored_rows.size()); }
  std::int64_t experts() const { return blocks_.layers - blocks_.gate; }

 private:
  template <typename Chosen>
  RowSet select(bool prompts, const Chosen& chosen) const;
  std::int32_t row_number(std::size_t late) const {
    return static_cast<std::int32_t>(step_.prompt_rows() + static_cast<std::int64_t>(late));
  }
  std::size_t late(std::int32_t row_number) const {
    return static_cast<std::size_t>(row_number - step_.prompt_rows());
  }

  const Step& step_;
  LateBlocks blocks_;
  std::int64_t capacity_;
  std::vector<float> weights_;
  std::vector<LateRow> rows_;         // of the matrix, below those of prompts
  std::vector<std::size_t> planned_;  // number of each in the plan
  std::size_t first_entering_ = 0;
};

}  // namespace fathom::generate
