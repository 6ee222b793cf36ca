#pragma once

#include "generate/stage_link.h"
#include "generate/step.h"

namespace fathom::generate {

/// How the steps of sequences go through one stage.
class Decoder {
 public:
  virtual ~Decoder() = default;

  /// Takes a group's step from the stage before, runs it and hands it on: what the head multiplies
  /// for its scored rows [scored rows, embed_dim] on the last stage, undefined on the others. Every
  /// stage runs the same steps in the same order; collective over the tensor group.
  virtual Tensor run(int group, const Step& step, StageLink& link) = 0;
};

}  // namespace fathom::generate
