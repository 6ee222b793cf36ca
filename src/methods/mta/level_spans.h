#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "data/batch.h"

namespace fathom::methods::mta {

/// Rows [begin, end) of a packed micro-batch.
struct RowSpan {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  bool operator==(const RowSpan&) const = default;
};

/// The spans of one granularity: those of sample s are spans[offsets[s] .. offsets[s + 1]).
struct SpanList {
  std::vector<std::int32_t> offsets{0};  ///< [samples + 1]
  std::vector<RowSpan> spans;

  /// Appends a sample's spans.
  void add_sample(const std::vector<RowSpan>& of_sample);
  /// Samples with at least two spans: those that add to the structural alignment.
  std::int64_t dsa_samples() const { return samples_with(2); }
  /// Samples with at least one: those that add to the hidden alignment.
  std::int64_t hid_samples() const { return samples_with(1); }

 private:
  std::int64_t samples_with(std::int32_t least) const;
};

/// A micro-batch's spans of one granularity, on the host and on the device, with what the kernels
/// need to go from spans to rows and back. Spans may overlap.
class LevelSpans {
 public:
  /// Throws Error(data) naming the sample for a span that is empty, that leaves its sample's rows,
  /// or that begins before its predecessor.
  LevelSpans(Device& device, const data::MicroBatch& batch, SpanList list);

  /// Ranges of one sample: its packed rows, its spans, and its rows inside spans.
  struct Sample {
    std::int64_t row = 0, rows = 0;
    std::int64_t span = 0, spans = 0;
    std::int64_t covered = 0, covered_rows = 0;
  };
  const std::vector<Sample>& samples() const { return samples_; }
  const SpanList& list() const { return list_; }
  std::int64_t rows() const { return starts_host_.back(); }
  std::int64_t spans() const { return static_cast<std::int64_t>(list_.spans.size()); }
  std::int64_t covered_rows() const { return static_cast<std::int64_t>(covered_host_.size()); }

  // On the device, i32.
  const Tensor& starts() const { return starts_; }    ///< [samples + 1] packed rows
  const Tensor& offsets() const { return offsets_; }  ///< [samples + 1] spans
  const Tensor& bounds() const { return bounds_; }    ///< [spans, 2]
  const Tensor& counts() const { return counts_; }    ///< [rows] spans that hold a row
  const Tensor& covered() const { return covered_; }  ///< [covered_rows] rows in a span, ascending
  /// The spans that hold covered row r: covering()[covering_begin()[r] .. covering_begin()[r + 1]).
  const Tensor& covering_begin() const { return covering_begin_; }
  const Tensor& covering() const { return covering_; }

 private:
  void validate(const data::MicroBatch& batch) const;

  SpanList list_;
  std::vector<std::int32_t> starts_host_, covered_host_;
  std::vector<Sample> samples_;
  Tensor starts_, offsets_, bounds_, counts_, covered_, covering_begin_, covering_;
};

}  // namespace fathom::methods::mta
