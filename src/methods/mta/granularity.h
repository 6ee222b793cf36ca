#pragma once

#include <vector>

#include "methods/mta/options.h"

namespace fathom::methods::mta {

/// The spans of one key layer.
enum class Level { words, phrases };

/// The level of each of `key_layers` layers, lowest first. Adaptive: words on the lowest `words`
/// layers, 0 for a third of them rounded up, and phrases above.
std::vector<Level> levels(Granularity granularity, int words, std::size_t key_layers);

}  // namespace fathom::methods::mta
