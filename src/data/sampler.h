#pragma once

#include <cstdint>

namespace fathom::data {

/// The order in which training visits the records: a pure function of (seed, position), so it is
/// the same on every grid, needs no state to resume at any position, and costs no memory.
///
/// Position p belongs to epoch p / records; each epoch is a complete permutation of its own, so
/// every record comes exactly once an epoch and a batch may straddle two epochs without dropping a
/// tail.
class SampleOrder {
 public:
  /// `records` > 0. Without `shuffle`, every epoch is 0, 1, 2, ... Throws Error(data) for no
  /// records.
  SampleOrder(std::uint64_t seed, std::int64_t records, bool shuffle = true);

  /// Record (in [0, records)) of the global position (>= 0). Costs eight Philox calls.
  std::int64_t record(std::int64_t position) const;

  std::int64_t epoch(std::int64_t position) const { return position / records_; }
  std::int64_t records() const { return records_; }
  std::uint64_t seed() const { return seed_; }
  bool shuffled() const { return shuffle_; }

 private:
  std::uint64_t permute_once(std::uint64_t value, std::uint32_t epoch) const;

  std::uint64_t seed_;
  std::int64_t records_;
  bool shuffle_;
  // The permutation acts on pairs (left, right) in [0, rows_) x [0, columns_), rows_ * columns_ >=
  // records_.
  std::uint64_t rows_;
  std::uint64_t columns_;
};

}  // namespace fathom::data
