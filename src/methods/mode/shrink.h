#pragma once

#include "methods/mode/mode_spec.h"

namespace fathom::methods::mode {

/// When a late layer loses its vote while a model is trained.
struct ShrinkRule {
  double below = 0;  ///< mean router weight of the earliest layer; 0: never
  int steps = 50;    ///< steps in a row that it must stay below
  int least = 2;     ///< late layers that stay

  bool enabled() const { return below > 0; }
};

/// Follows the earliest late layer's weight. One layer goes at a time, and the next one then has to
/// stay below for as many steps again, with a router that has got used to being one layer later.
class ShrinkWatch {
 public:
  explicit ShrinkWatch(const ShrinkRule& rule) : rule_(rule) {}

  /// Takes the weight of a step, a mean over its tokens, with k layers that vote; whether the
  /// earliest of them goes now.
  bool observe(double weight, int k);

  /// Steps in a row below the threshold so far: all that a checkpoint has to know.
  int steps_below() const { return steps_below_; }
  void set_steps_below(int steps) { steps_below_ = steps; }

 private:
  ShrinkRule rule_;
  int steps_below_ = 0;
};

}  // namespace fathom::methods::mode
