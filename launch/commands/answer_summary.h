#pragma once

#include <nlohmann/json_fwd.hpp>

#include "launch/commands/answers.h"

/// The numbers that `fathom evaluate` prints about answers, and logs on the way.
namespace fathom::launch {

/// What one seed's answers score: mean tokens, counts, and ROUGE-L or accuracy. `seconds` is how
/// long they took, for the log.
nlohmann::json summarise_seed(const AnswerPlan& plan, const SeedAnswers& seed, double seconds);

/// Where tokens left late layers early; there is at least one.
nlohmann::json summarise_exits(const generate::ExitCounts& exits, const model::ModelSpec& spec);

/// How answers were made, and mean and standard deviation over the seeds of what
/// summarise_seed() gave for each; there is at least one.
nlohmann::json summarise(const AnswerPlan& plan, nlohmann::json seeds);

}  // namespace fathom::launch
