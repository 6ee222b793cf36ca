#pragma once

#include "generate/cached_stage.h"
#include "generate/decoder.h"
#include "methods/mode/late_vote.h"

namespace fathom::generate {

/// Runs every row of a step through all of a stage's layers.
class StageDecoder : public Decoder {
 public:
  /// The stage must outlive the decoder, as must `vote`: late layers that decide together, or null.
  StageDecoder(const model::Stage& stage, std::int64_t slots, std::int64_t capacity,
               const methods::mode::LateVote* vote = nullptr);

  Tensor run(int group, const Step& step, StageLink& link) override;

 private:
  // Rows that come from the stage before, or go to the next: the step's, and below them, layer by
  // layer, the scored ones of each late state that has been made.
  std::int64_t input_rows(const Step& step) const;
  Tensor run_blocks(const Step& step, const Tensor& input);
  // What the head multiplies, for the scored rows of run_blocks()'s result.
  Tensor finish(const Step& step, const Tensor& hidden) const;
  // Of the late states, those of layers below `layer`.
  std::int64_t late_below(std::int64_t layer) const;

  CachedStage blocks_;
  const model::Stage& stage_;
  const methods::mode::LateVote* vote_;
  std::vector<std::int64_t> late_;  // layers whose states the vote needs, ascending
};

}  // namespace fathom::generate
