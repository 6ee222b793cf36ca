#pragma once

#include <memory>

#include "autograd/operations.h"
#include "data/batch.h"

namespace fathom::train {

/// A micro-batch on the device: what attention and embeddings need, and the supervised rows with
/// their labels.
struct DeviceRows {
  std::shared_ptr<const autograd::TokenRows> tokens;
  Tensor label_rows;       ///< i32 [m], indices of supervised rows
  Tensor labels;           ///< i32 [m]
  std::int64_t count = 0;  ///< tokens
};

DeviceRows upload(Device& device, const data::MicroBatch& batch);

}  // namespace fathom::train
