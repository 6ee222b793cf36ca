#include "methods/distill/threshold.h"

#include <algorithm>

#include "core/error.h"
#include "methods/distill/random_words.h"

namespace fathom::methods::distill {

void Threshold::evaluated(double loss) {
  if (!state_.reference) {
    state_.reference = loss;
  } else if (loss >= *state_.reference + options_.tolerance) {
    state_ = {std::min(state_.value + options_.rise, 1.0), loss};
  }
}

double fresh_share(ReplaySchedule schedule, double phi, std::int64_t step, std::int64_t steps) {
  FATHOM_CHECK(0 <= step && step <= steps && steps > 0, "step ", step, " of ", steps);
  const double done = static_cast<double>(step) / static_cast<double>(steps);
  switch (schedule) {
    case ReplaySchedule::decreasing:
      return phi * (1 - done);
    case ReplaySchedule::constant:
      return phi / 2;
    case ReplaySchedule::increasing:
      return phi * done;
  }
  fail(ErrorKind::internal, "replay schedule ", static_cast<int>(schedule));
}

Origin choose_origin(double r, double phi, double fresh, bool buffer_full) {
  if (r < fresh) return Origin::generate;
  if (r >= phi) return Origin::dataset;
  return buffer_full ? Origin::replay : Origin::generate;
}

double origin_draw(std::uint64_t seed, std::int64_t step, std::int64_t micro_batch) {
  return uniform(seed, step, micro_batch, 0);
}

}  // namespace fathom::methods::distill
