#pragma once

#include <cstdint>
#include <string>

#include "model/seams.h"

namespace fathom::diagnose::moc {

// Sites are numbered in the order of the forward pass: layer 0's attention, its MLP, layer 1's ...

inline std::size_t site_index(std::int64_t layer, model::BlockSite site) {
  return static_cast<std::size_t>(2 * layer + (site == model::BlockSite::mlp ? 1 : 0));
}

inline std::int64_t layer_of(std::size_t site) {
  return static_cast<std::int64_t>(site / 2);
}

inline model::BlockSite kind_of(std::size_t site) {
  return site % 2 == 0 ? model::BlockSite::attention : model::BlockSite::mlp;
}

/// "attention" or "mlp".
inline const char* to_string(model::BlockSite site) {
  return site == model::BlockSite::attention ? "attention" : "mlp";
}

/// "layer 3, mlp"
inline std::string site_name(std::size_t site) {
  return "layer " + std::to_string(layer_of(site)) + ", " + to_string(kind_of(site));
}

}  // namespace fathom::diagnose::moc
