#pragma once

#include <vector>

#include "methods/key_layers.h"
#include "methods/state_loss.h"

namespace fathom::methods {

/// A site for each pair of key layers: what a loss that compares pair by pair asks for.
inline std::vector<Site> pair_sites(const std::vector<KeyLayer>& layers) {
  std::vector<Site> sites;
  for (const KeyLayer& pair : layers)
    sites.push_back({.states = {{Side::student, pair.student}, {Side::teacher, pair.teacher}}});
  return sites;
}

/// One site at the heads with the states of all pairs.
inline Site head_site(const std::vector<KeyLayer>& layers) {
  Site all{.states = {}, .at_head = true};
  for (const Site& pair : pair_sites(layers))
    all.states.insert(all.states.end(), pair.states.begin(), pair.states.end());
  return all;
}

}  // namespace fathom::methods
