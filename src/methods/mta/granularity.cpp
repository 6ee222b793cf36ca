#include "methods/mta/granularity.h"

namespace fathom::methods::mta {

std::vector<Level> levels(Granularity granularity, int words, std::size_t key_layers) {
  std::size_t lower = words > 0 ? static_cast<std::size_t>(words) : (key_layers + 2) / 3;
  if (granularity == Granularity::words) lower = key_layers;
  if (granularity == Granularity::phrases) lower = 0;
  std::vector<Level> all;
  for (std::size_t k = 0; k < key_layers; ++k)
    all.push_back(k < lower ? Level::words : Level::phrases);
  return all;
}

}  // namespace fathom::methods::mta
