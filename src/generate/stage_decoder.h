#pragma once

#include "generate/kv_cache.h"
#include "generate/step.h"
#include "model/stage.h"

namespace fathom::generate {

/// Runs steps through one stage without a tape: prompts by the kernels of training, running
/// sequences against the cache. Linear layers see both as one matrix.
class StageDecoder {
 public:
  /// The stage must outlive the decoder.
  StageDecoder(const model::Stage& stage, std::int64_t slots, std::int64_t capacity);

  /// Hidden states [rows, hidden] behind the stage's last block; the cache then has the step's
  /// rows. `input` holds those of the stage before, and is undefined on the first. Collective over
  /// the tensor group.
  Tensor run(const Step& step, const Tensor& input);

  /// What the head multiplies, for the scored rows of run()'s result. Last stage only; collective
  /// over the tensor group.
  Tensor finish(const Step& step, const Tensor& hidden) const;

 private:
  const model::Stage& stage_;
  KvCache cache_;
};

}  // namespace fathom::generate
