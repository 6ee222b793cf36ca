#pragma once

namespace fathom::data {

/// What becomes of a record that needs more inputs than the context holds.
enum class Overlong {
  refuse,    ///< an error that names the first one and counts them
  truncate,  ///< its end is cut; it leaves the set if no label remains (the prompt alone fills it)
  skip,      ///< it leaves the set
};

}  // namespace fathom::data
