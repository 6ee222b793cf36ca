#include "methods/mode/shrink.h"

namespace fathom::methods::mode {

bool ShrinkWatch::observe(double weight, int k) {
  if (!rule_.enabled() || k <= rule_.least) return false;
  steps_below_ = weight < rule_.below ? steps_below_ + 1 : 0;
  if (steps_below_ < rule_.steps) return false;
  steps_below_ = 0;
  return true;
}

}  // namespace fathom::methods::mode
