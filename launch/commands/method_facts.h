#pragma once

#include <nlohmann/json_fwd.hpp>

#include "launch/commands/source.h"

namespace fathom::launch {

/// What must be known of a model to compare its results with another one's, for every result file:
/// "method", with its options in "adapter" or "moc", "route_scope" where experts are chosen,
/// "mode" where late layers vote, and "loss_on_prompt" of the run that trained it, if that is
/// known.
nlohmann::json method_facts(const SourcePlan& source);

}  // namespace fathom::launch
