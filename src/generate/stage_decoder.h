#pragma once

#include <optional>

#include "generate/kv_cache.h"
#include "generate/step.h"
#include "methods/mode/late_vote.h"
#include "model/stage.h"

namespace fathom::generate {

/// Runs steps through one stage without a tape: prompts by the kernels of training, running
/// sequences against the cache. Linear layers see both as one matrix.
class StageDecoder {
 public:
  /// The stage must outlive the decoder, as must `vote`: late layers that decide together, or null.
  StageDecoder(const model::Stage& stage, std::int64_t slots, std::int64_t capacity,
               const methods::mode::LateVote* vote = nullptr);

  /// Rows of run()'s input: the step's, and the scored ones of each late state made before this
  /// stage's input.
  std::int64_t input_rows(const Step& step) const;

  /// Hidden states [rows, hidden] behind the stage's last block; the cache then has the step's
  /// rows. Below them, layer by layer, the scored rows of late states that the vote needs.
  /// `input` holds the same of the stage before, and is undefined on the first. Collective over
  /// the tensor group.
  Tensor run(const Step& step, const Tensor& input);

  /// What the head multiplies, for the scored rows of run()'s result. Last stage only; collective
  /// over the tensor group.
  Tensor finish(const Step& step, const Tensor& hidden) const;

 private:
  model::Pass pass_of(const Step& step, KvCache& cache, std::optional<std::int64_t> layer);
  /// Of the late states, those of layers below `layer`.
  std::int64_t late_below(std::int64_t layer) const;

  const model::Stage& stage_;
  const methods::mode::LateVote* vote_;
  std::vector<std::int64_t> late_;  // layers whose states the vote needs, ascending
  KvCache cache_;
  std::optional<KvCache> aside_;  // of blocks that run beside others, by the layer of these
  std::int64_t capacity_;
  std::shared_ptr<model::PassState> state_;  // of the stage's extension
};

}  // namespace fathom::generate
