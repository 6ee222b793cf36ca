#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "eval/answer_sets.h"

namespace fathom::eval {

/// What an extractor found in an answer, and whether it is the label.
struct Grade {
  std::optional<std::string> found;
  bool correct = false;
};

/// One answer by both extractors (extraction.h).
struct Grades {
  Grade legacy, strict;
};
Grades grade(const AnswerSet& set, std::string_view answer, std::string_view label);

/// Percent of right answers, by both extractors.
struct Accuracy {
  double legacy = 0, strict = 0;
};

/// Counts over the questions of one set.
struct SetScore {
  struct Tally {
    std::int64_t correct = 0;
    std::int64_t no_match = 0;  ///< answers in which nothing was found; they are wrong
  };

  std::int64_t questions = 0;
  Tally legacy, strict;

  void add(const Grades& grades);
  /// Throws Error(data) if there are no questions.
  Accuracy accuracy() const;
};

/// The plain mean over sets, whatever their sizes: what published tables report. Throws Error(data)
/// for no sets, or one without questions.
Accuracy mean_accuracy(std::span<const SetScore> sets);

}  // namespace fathom::eval
