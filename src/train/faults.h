#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "train/config.h"

namespace fathom::train {

/// Whether a fault can be asked for there: an action of a run, or a stage of a save.
bool is_fault_action(std::string_view action);

/// Breaks this rank on purpose, as the [faults] section asks: so that tests, and whoever sets up a
/// cluster, can see how a run ends and comes back. Does nothing without such a section.
class FaultInjector {
 public:
  FaultInjector(const FaultsConfig& config, int rank);

  /// Called before each action of the run and at each stage of a save, from whichever thread is at
  /// work. The fault happens here, once, if this is its step and action; slow_link delays every
  /// message from its step on, and is pending until the first. Throws Error(io) for failed_write.
  void reached(std::int64_t step, std::string_view action);

  /// True while the fault that was asked for has not happened. It may never: there may be no such
  /// action on that rank, or in that step.
  bool pending() const { return pending_; }

  /// True when this rank's loss of the step is to be taken for NaN.
  bool poisons(std::int64_t step) const;

 private:
  void strike();

  FaultsConfig config_;
  std::atomic<bool> pending_;
  const bool slow_;  ///< for good
};

}  // namespace fathom::train
