#pragma once

#include <vector>

#include "methods/state_loss.h"
#include "pipeline/partition.h"

namespace fathom::train {

/// A key state that has to be on a later stage than the one that makes it.
struct StateRoute {
  methods::KeyState state;
  int made = 0;  ///< the stage that makes it
  int from = 0;  ///< the last stage that has it anyway: made or the next one
  int to = 0;    ///< the last stage that wants it; those between may read it as well
};

/// Where the key states of all losses are made, read, and what has to travel for it. A state at the
/// end of a stage is the beginning of the next one and needs no route of its own. A pure function
/// of the partitions, the same on every rank.
class StateRoutes {
 public:
  /// Nothing is wanted.
  StateRoutes() = default;
  /// `teacher` may be null if no site asks for its states. Throws Error(config) naming a layer that
  /// the model does not have.
  StateRoutes(const pipeline::Partition& student, const pipeline::Partition* teacher,
              const std::vector<methods::Site>& sites);

  /// The stage that computes site `index` of the list given.
  int stage_of_site(std::size_t index) const { return site_stages_.at(index); }
  std::vector<std::size_t> sites_on(int stage) const;

  /// What a stage must keep when it comes by: states for its own sites and those that it sends.
  bool wanted(int stage, methods::KeyState state) const;

  /// The extra parts of the bundle from `stage` to the next one, in order.
  std::vector<StateRoute> sent_by(int stage) const;

  const std::vector<StateRoute>& routes() const { return routes_; }

 private:
  std::vector<methods::Site> sites_;
  std::vector<int> site_stages_;
  std::vector<StateRoute> routes_;  // by state
};

}  // namespace fathom::train
