#pragma once

#include <functional>
#include <vector>

#include "core/tensor.h"

namespace fathom::model {

/// Values that the host wants, but not yet: losses and counts of a step's micro-batches. They are
/// read together when the step's work has been enqueued, so that the host waits for its device
/// once, whatever the number of layers and micro-batches.
class Readback {
 public:
  using Use = std::function<void(const std::vector<float>&)>;

  /// Remembers an f32 tensor, whose memory must stay as it is until read(); undefined and empty
  /// ones are dropped.
  void add(const Tensor& values, Use use);

  /// Hands each tensor's values, in row-major order, to its use, in the order of add(). Blocks.
  void read();

  void clear() { pending_.clear(); }

 private:
  struct Pending {
    Tensor values;
    Use use;
  };
  std::vector<Pending> pending_;
};

}  // namespace fathom::model
