#pragma once

// The choices of MTA, apart from its arithmetic, so that the configuration can name them.

namespace fathom::methods::mta {

/// Which spans a key layer is aligned on.
enum class Granularity {
  adaptive,  ///< words on the lower key layers, phrases on the upper ones
  words,
  phrases,
};

/// What the pair weights of the dynamic structural alignment are divided by.
enum class PairNormalisation {
  sample,  ///< their sum in the sample: a weighted mean over its pairs
  none,    ///< nothing: the weights of a sample's pairs sum to at most 1
  batch,   ///< their sum over the whole micro-batch, as in earlier code; needs a single one
};

/// Which tokens spans may cover.
enum class SpanRegion { all, response };

}  // namespace fathom::methods::mta
