#include "eval/answers.h"

#include <cmath>
#include <numeric>

#include "core/error.h"
#include "eval/rouge.h"

namespace fathom::eval {

std::string answer_text(std::string decoded) {
  constexpr std::string_view kEnd = "<|endoftext|>", kBreak = "<n>", kSpace = " \t\n\r\v\f";
  decoded.resize(std::min(decoded.size(), decoded.find(kEnd)));
  for (std::size_t at = decoded.find(kBreak); at != decoded.npos; at = decoded.find(kBreak, at))
    decoded.replace(at, kBreak.size(), "\n");
  const std::size_t first = decoded.find_first_not_of(kSpace);
  if (first == decoded.npos) return {};
  return decoded.substr(first, decoded.find_last_not_of(kSpace) + 1 - first);
}

std::vector<double> score_answers(std::span<const std::string> answers,
                                  std::span<const std::vector<std::string>> references) {
  require(answers.size() == references.size(), ErrorKind::data, answers.size(), " answers but ",
          references.size(), " lists of references");
  std::vector<double> scores;
  for (std::size_t i = 0; i < answers.size(); ++i)
    scores.push_back(100 * best_rouge_l(answers[i], references[i]));
  return scores;
}

Spread spread_of(std::span<const double> values) {
  require(!values.empty(), ErrorKind::data, "no values to take the mean of");
  const auto n = static_cast<double>(values.size());
  Spread result{std::accumulate(values.begin(), values.end(), 0.0) / n, std::nullopt};
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.sd = std::sqrt(squares / (n - 1));
  return result;
}

}  // namespace fathom::eval
