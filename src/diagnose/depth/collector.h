#pragma once

#include "data/batch.h"
#include "diagnose/depth/sums.h"
#include "methods/mode/late_vote.h"
#include "model/chunk_loss.h"
#include "model/stage.h"

namespace fathom::diagnose::depth {

/// Looks at each late layer's own logits, a chunk of rows at a time. On the last stage only; calls
/// are collective over the tensor group.
class DepthCollector {
 public:
  /// The stage must outlive the collector; `first_layer` counts from 1.
  DepthCollector(const model::Stage& last, std::int64_t first_layer, std::size_t k);

  /// The votes of a micro-batch's supervised rows, in order, and their labels.
  void add(const data::MicroBatch& batch, const methods::mode::Votes& votes, const Tensor& labels);

  const DepthSums& sums() const { return sums_; }

 private:
  // What the layers and, behind them, the mixture say of one chunk.
  struct Seen {
    std::vector<std::vector<float>> results;  // [k + 1][rows, kLossResults] for the labels
    std::vector<std::vector<float>> guesses;  // the same for the last layer's first choice
  };
  Seen look(const methods::mode::Votes& votes, const Tensor& labels, std::int64_t begin,
            std::int64_t rows) const;
  Tensor multiply(const Tensor& states, const Tensor& buffer) const;
  Tensor first_choices(const Tensor& states) const;
  void count(const Seen& seen, std::size_t rows, std::vector<std::vector<char>>& correct);
  void count_weights(const std::vector<float>& weights);
  void count_examples(const data::MicroBatch& batch, const std::vector<std::vector<char>>& correct);

  const model::Stage& last_;
  DepthSums sums_;
};

}  // namespace fathom::diagnose::depth
