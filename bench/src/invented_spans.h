#pragma once

#include <vector>

#include "data/batch.h"
#include "data/spans/token_spans.h"

namespace fathom::bench {

/// Spans for random tokens, as dense as those of English text: words of one, one and two tokens in
/// turn, and phrases of three tokens with one between them. bench/peers/trajectories.py has the
/// same.
std::vector<std::vector<data::spans::TokenSpans>> invented_spans(
    const std::vector<data::MicroBatch>& batches);

}  // namespace fathom::bench
