#pragma once

#include <string>
#include <vector>

#include "launch/commands/answers.h"

/// What `fathom evaluate` writes about answers, and reads of another model's.
namespace fathom::launch {

/// The first answer to each turn of each question in a file that --answers wrote. Throws Error(io),
/// and Error(data) naming a question without an answer there, or one that was another question.
std::vector<std::vector<RivalAnswer>> read_rivals(
    const std::string& file, const std::vector<data_tools::Question>& questions);

/// Writes --answers and --judge where they are wanted; `all` has at least one seed.
void write_answer_files(const AnswerPlan& plan, const std::vector<SeedAnswers>& all);

}  // namespace fathom::launch
