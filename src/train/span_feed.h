#pragma once

#include <memory>
#include <vector>

#include "comm/process_grid.h"
#include "data/batch.h"
#include "data/spans/span_source.h"
#include "train/config.h"

namespace fathom::train {

/// Words and phrases of the samples that a step trains on, from a span file or found on the spot.
/// What is found is shared: each rank of a model parses its part of the texts, and all of them
/// exchange the results. A text is always the same rank's, wherever it stands, so that what was
/// announced or parsed before is found again.
class SpanFeed {
 public:
  /// The grid must outlive the feed. Opens nothing.
  SpanFeed(comm::ProcessGrid& grid, const SpansConfig& config);

  /// Opens the span file and the extractor. `tokenizer` is the folder that has the model's. Throws
  /// what open_span_source throws.
  void open(std::shared_ptr<const data::TokenFile> tokens, const std::filesystem::path& tokenizer);

  /// Announces micro-batches that a later step will ask for, so that their spans are read or parsed
  /// meanwhile.
  void prefetch(const std::vector<data::MicroBatch>& batches);

  /// Spans of every sequence of this rank's micro-batches, [slot][sequence]; none for the second
  /// corpus. Collective over the tensor and pipeline axes, whose ranks hold the same micro-batches.
  std::vector<std::vector<data::spans::TokenSpans>> take(
      const std::vector<data::MicroBatch>& batches);

  /// What happened since the last call: on this rank, but for `beyond_cut`, which is of all texts
  /// that take() gave out and the same on each rank of a model.
  data::spans::SpanCounts take_counts();

 private:
  bool from_file(const data::MicroBatch& batch) const;
  bool mine(const data::MicroBatch& batch, std::int64_t sequence) const;
  data::spans::TokenSpans get(const data::MicroBatch& batch, std::int64_t sequence);
  template <typename Visit>
  void for_each(const std::vector<data::MicroBatch>& batches, const Visit& visit) const;
  std::vector<std::string> exchange(const std::string& text);

  comm::ProcessGrid& grid_;
  SpansConfig config_;
  std::unique_ptr<data::spans::SpanSource> source_;
  std::int64_t beyond_cut_ = 0;
};

}  // namespace fathom::train
