#include "train/state_routes.h"

#include <algorithm>
#include <map>

#include "core/error.h"

namespace fathom::train {

using methods::KeyState;
using methods::Side;
using methods::Site;

namespace {

// The stages that have a state without any route: the one that makes it, and the next one if it is
// what passes between the two.
struct Home {
  int made = 0, last = 0;
};

Home home_of(const pipeline::Partition& partition, KeyState key) {
  require(key.layer >= 0 && key.layer <= partition.layers(), ErrorKind::config, "key layer ",
          key.layer, " of the ", key.side == Side::teacher ? "teacher" : "student",
          ": it has the states 0 to ", partition.layers());
  if (key.layer == 0) return {0, 0};
  const int layer = static_cast<int>(key.layer);
  const int made = partition.stage_of(layer - 1);
  const bool passes_on = layer == partition.end(made) && made + 1 < partition.stages();
  return {made, passes_on ? made + 1 : made};
}

}  // namespace

StateRoutes::StateRoutes(const pipeline::Partition& student, const pipeline::Partition* teacher,
                         const std::vector<Site>& sites)
    : sites_(sites) {
  const auto home = [&](KeyState key) {
    FATHOM_CHECK(key.side == Side::student || teacher != nullptr, "there is no teacher");
    return home_of(key.side == Side::student ? student : *teacher, key);
  };
  std::map<KeyState, int> farthest;
  for (const Site& site : sites_) {
    int stage = site.at_head ? student.stages() - 1 : 0;
    for (const KeyState key : site.states) stage = std::max(stage, home(key).made);
    site_stages_.push_back(stage);
    for (const KeyState key : site.states) farthest[key] = std::max(farthest[key], stage);
  }
  for (const auto& [key, to] : farthest)
    if (const Home h = home(key); to > h.last) routes_.push_back({key, h.made, h.last, to});
}

std::vector<std::size_t> StateRoutes::sites_on(int stage) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < site_stages_.size(); ++i)
    if (site_stages_[i] == stage) found.push_back(i);
  return found;
}

bool StateRoutes::wanted(int stage, KeyState state) const {
  for (const std::size_t i : sites_on(stage)) {
    const auto& states = sites_[i].states;
    if (std::find(states.begin(), states.end(), state) != states.end()) return true;
  }
  return std::any_of(routes_.begin(), routes_.end(), [&](const StateRoute& route) {
    return route.state == state && stage == route.from;
  });
}

std::vector<StateRoute> StateRoutes::sent_by(int stage) const {
  std::vector<StateRoute> sent;
  for (const StateRoute& route : routes_)
    if (route.from <= stage && stage < route.to) sent.push_back(route);
  return sent;
}

}  // namespace fathom::train
