#include "data/sampler.h"

#include <cmath>

#include "core/error.h"
#include "core/philox.h"

namespace fathom::data {
namespace {

constexpr std::uint32_t kRounds = 8;

// Smallest r with r * r >= n, for n >= 1.
std::uint64_t ceil_sqrt(std::uint64_t n) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (root * root < n) ++root;
  while (root > 1 && (root - 1) * (root - 1) >= n) --root;
  return root;
}

std::uint64_t round_function(std::uint64_t seed, std::uint32_t epoch, std::uint32_t round,
                             std::uint64_t value) {
  const Philox words = philox(
      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
      static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32), epoch, round);
  return std::uint64_t{words.v[1]} << 32 | words.v[0];
}

}  // namespace

SampleOrder::SampleOrder(std::uint64_t seed, std::int64_t records, bool shuffle)
    : seed_(seed), records_(records), shuffle_(shuffle), rows_(1), columns_(1) {
  require(records > 0, ErrorKind::data, "the data set has ", records,
          " records; at least one is needed to train or evaluate");
  const auto count = static_cast<std::uint64_t>(records);
  rows_ = ceil_sqrt(count);
  columns_ = (count + rows_ - 1) / rows_;
}

// A Feistel network over unequal halves with modular addition (Black and Rogaway, 2002): each round
// shifts one coordinate by a keyed function of the other, which is a bijection on the rectangle.
std::uint64_t SampleOrder::permute_once(std::uint64_t value, std::uint32_t epoch) const {
  std::uint64_t left = value / columns_;
  std::uint64_t right = value % columns_;
  for (std::uint32_t round = 0; round < kRounds; round += 2) {
    left = (left + round_function(seed_, epoch, round, right) % rows_) % rows_;
    right = (right + round_function(seed_, epoch, round + 1, left) % columns_) % columns_;
  }
  return left * columns_ + right;
}

std::int64_t SampleOrder::record(std::int64_t position) const {
  FATHOM_CHECK(position >= 0, "sample position ", position);
  const std::int64_t within = position % records_;
  if (!shuffle_) return within;
  const auto epoch_number = static_cast<std::uint32_t>(epoch(position));
  // The rectangle is larger than the set by less than one row: walking the cycle until it comes
  // back inside keeps the map a permutation of the set itself.
  auto value = static_cast<std::uint64_t>(within);
  do {
    value = permute_once(value, epoch_number);
  } while (value >= static_cast<std::uint64_t>(records_));
  return static_cast<std::int64_t>(value);
}

}  // namespace fathom::data
