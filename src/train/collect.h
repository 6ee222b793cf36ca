#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/shape.h"
#include "model/parameters.h"

namespace fathom::train {

/// A rectangle of a named tensor that some rank holds.
struct Fragment {
  std::string name;
  Shape shape;  ///< of the whole tensor, at most two dims
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
  std::vector<float> values;  ///< [rows, columns]
};

struct WholeTensor {
  Shape shape;
  std::vector<float> values;
};

/// Puts the fragments of all ranks together on rank 0 (empty elsewhere). Collective; holds
/// everything in memory, so it is for parity checks and small models. Throws Error(internal) unless
/// fragments cover each tensor exactly once.
std::map<std::string, WholeTensor> collect(comm::Communicator& world,
                                           const std::vector<Fragment>& fragments);

/// The fragments that this rank owns of a parameter's values or gradient.
void append_fragments(const model::Parameter& parameter, const Tensor& local,
                      const std::string& name, std::vector<Fragment>& fragments);

}  // namespace fathom::train
