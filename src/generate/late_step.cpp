#include "generate/late_step.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace fathom::generate {

LateStep::LateStep(const Step& step, const std::vector<LateRow>& plan, const LateBlocks& blocks,
                   std::int64_t capacity, std::vector<float> weights)
    : step_(step), blocks_(blocks), capacity_(capacity), weights_(std::move(weights)) {
  const auto add = [&](const auto& chosen) {
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (!chosen(plan[i])) continue;
      rows_.push_back(plan[i]);
      planned_.push_back(i);
    }
  };
  add([&](const LateRow& row) { return row.from <= blocks.begin && row.until > blocks.begin; });
  first_entering_ = rows_.size();
  add([&](const LateRow& row) { return row.from > blocks.begin && row.from <= blocks.end; });
}

template <typename Chosen>
RowSet LateStep::select(bool prompts, const Chosen& chosen) const {
  RowSet set;
  BlockRows& rows = set.rows;
  if (prompts) {
    const auto count = static_cast<std::ptrdiff_t>(step_.prompt_rows());
    set.index.resize(static_cast<std::size_t>(count));
    std::iota(set.index.begin(), set.index.end(), 0);
    rows.positions.assign(step_.positions.begin(), step_.positions.begin() + count);
    rows.cache_rows.assign(step_.cache_rows.begin(), step_.cache_rows.begin() + count);
    rows.prompt_starts = step_.prompt_starts;
    rows.prompt_slots = step_.prompt_slots;
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const LateRow& row = rows_[i];
    if (!chosen(row)) continue;
    set.index.push_back(row_number(i));
    rows.positions.push_back(row.position);
    rows.cache_rows.push_back(static_cast<std::int32_t>(row.slot * capacity_ + row.position));
    rows.slots.push_back(row.slot);
    rows.lengths.push_back(row.position + 1);
  }
  return set;
}

RowSet LateStep::entering() const {
  return select(false, [&](const LateRow& row) { return row.from > blocks_.begin; });
}

RowSet LateStep::running(std::int64_t block) const {
  return select(true, [&](const LateRow& row) { return row.from <= block && block < row.to; });
}

RowSet LateStep::copying(std::int64_t block) const {
  return select(false, [&](const LateRow& row) { return row.to <= block && block < row.until; });
}

RowSet LateStep::parking() const {
  return select(false, [&](const LateRow& row) {
    return row.to <= blocks_.end && row.to == row.until && row.to < blocks_.layers;
  });
}

std::vector<std::int32_t> LateStep::leaving() const {
  const RowSet set = select(true, [&](const LateRow& row) { return row.until > blocks_.end; });
  // The next stage takes them in the order of the plan, whatever waited here.
  std::vector<std::int32_t> index = set.index;
  std::sort(index.begin() + static_cast<std::ptrdiff_t>(set.rows.prompt_rows()), index.end(),
            [&](std::int32_t a, std::int32_t b) { return planned_[late(a)] < planned_[late(b)]; });
  return index;
}

std::vector<std::int32_t> LateStep::decided_by(std::int64_t expert) const {
  std::vector<std::int32_t> scored;
  for (std::int64_t row = 0; row < this->scored(); ++row)
    if (weights_[static_cast<std::size_t>(row * experts() + expert)] != 0)
      scored.push_back(static_cast<std::int32_t>(row));
  return scored;
}

std::vector<std::int32_t> LateStep::rows_decided_by(std::int64_t expert) const {
  std::vector<std::int32_t> index = decided_by(expert);
  for (std::int32_t& number : index) {
    const auto scored = static_cast<std::size_t>(number);
    if (scored < step_.prompt_slots.size()) {
      number = step_.scored_rows[scored];
      continue;
    }
    const auto row = std::find_if(rows_.begin(), rows_.end(),
                                  [&](const LateRow& late) { return late.scored == number; });
    FATHOM_CHECK(row != rows_.end(), "scored row ", number, " is not here");
    number = row_number(static_cast<std::size_t>(row - rows_.begin()));
  }
  return index;
}

}  // namespace fathom::generate
