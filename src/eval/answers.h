#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fathom::eval {

/// The text that is judged, from what a model wrote: cut at a written-out "<|endoftext|>", "<n>" as
/// a line break, and no white space (ASCII) around it.
std::string answer_text(std::string decoded);

/// Each answer's best ROUGE-L (rouge.h) over its own references, in percent; an empty answer has 0.
/// Throws Error(data) if there are not as many lists of references as answers, or one is empty.
std::vector<double> score_answers(std::span<const std::string> answers,
                                  std::span<const std::vector<std::string>> references);

/// Mean, and the standard deviation of the sample (n - 1 in the denominator) if there are at least
/// two values.
struct Spread {
  double mean = 0;
  std::optional<double> sd;
};

/// Throws Error(data) for no values.
Spread spread_of(std::span<const double> values);

}  // namespace fathom::eval
