#include "eval/accuracy.h"

#include "core/error.h"
#include "eval/extraction.h"

namespace fathom::eval {
namespace {

Grade grade_by(Extractor extractor, const AnswerSet& set, std::string_view answer,
               std::string_view label) {
  Grade grade{.found = extract(set, extractor, answer)};
  grade.correct = is_correct(set, grade.found, label);
  return grade;
}

void count(SetScore::Tally& tally, const Grade& grade) {
  tally.correct += grade.correct;
  tally.no_match += !grade.found.has_value();
}

}  // namespace

Grades grade(const AnswerSet& set, std::string_view answer, std::string_view label) {
  return {.legacy = grade_by(Extractor::legacy, set, answer, label),
          .strict = grade_by(Extractor::strict, set, answer, label)};
}

void SetScore::add(const Grades& grades) {
  ++questions;
  count(legacy, grades.legacy);
  count(strict, grades.strict);
}

Accuracy SetScore::accuracy() const {
  require(questions > 0, ErrorKind::data, "no questions to take the accuracy of");
  const double percent = 100.0 / static_cast<double>(questions);
  return {percent * static_cast<double>(legacy.correct),
          percent * static_cast<double>(strict.correct)};
}

Accuracy mean_accuracy(std::span<const SetScore> sets) {
  require(!sets.empty(), ErrorKind::data, "no sets to take the mean accuracy of");
  Accuracy sum;
  for (const SetScore& set : sets) {
    const Accuracy one = set.accuracy();
    sum.legacy += one.legacy;
    sum.strict += one.strict;
  }
  const auto count = static_cast<double>(sets.size());
  return {sum.legacy / count, sum.strict / count};
}

}  // namespace fathom::eval
