#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/config.h"

namespace fathom::train {

/// Collects the rules between keys that a configuration breaks.
class Rules {
 public:
  void must(bool holds, std::vector<std::string> keys, std::string rule) {
    if (!holds) broken_.push_back({std::move(keys), std::move(rule)});
  }
  std::vector<Violation> take() { return std::move(broken_); }

 private:
  std::vector<Violation> broken_;
};

/// Those of [adapter] and [moc]: what is trained instead of the model.
void check_tuning(const TrainConfig& config, Rules& rules);

}  // namespace fathom::train
