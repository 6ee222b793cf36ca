#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/dataset.h"
#include "generate/generator.h"
#include "methods/distill/replay_buffer.h"

namespace fathom::train {

/// A model's answers to the prompts of a data set, with its weights as they are. An answer ends
/// with its first end-of-text token, which is one of its tokens. It depends on the weights, the
/// seed and the sample's number, not on the grid or on what else is answered.
class AnswerWriter {
 public:
  /// What happened since the writer was made.
  struct Totals {
    std::int64_t tokens = 0;    ///< of answers
    std::int64_t left_out = 0;  ///< samples without an answer, see write()
    double seconds = 0;
  };
  struct Sample {
    std::int64_t number = 0;  ///< keys the random numbers
    std::int64_t record = 0;  ///< of the data set
  };

  /// Data set, stage and grid must outlive the writer, which sets the context, the stop ids and
  /// the vocabulary of `options` itself: answers have ids of the data set's tokenizer only. Throws
  /// Error(data) for a data set none of whose records can be answered, and what Generator throws.
  AnswerWriter(const data::Dataset& dataset, generate::GeneratorOptions options,
               const model::Stage& stage, comm::ProcessGrid& grid);

  /// Prompts with their answers in the order of the samples, on every rank. Left out are samples
  /// that have no prompt, whose prompt leaves no room for an answer in the context, and whose
  /// answer is padding alone. Collective over the grid, with
  /// the same samples on every rank. Throws Stopped on every rank, as if it had not been called,
  /// when any was asked to stop.
  std::vector<methods::distill::AnsweredPrompt> write(const std::vector<Sample>& samples);

  const Totals& totals() const { return totals_; }

  /// Called between tokens: for the watchdog. May be empty.
  std::function<void()> progress;
  /// Called for each answer that write() will return as soon as it is complete, on the ranks of the
  /// replica that wrote it: others are still being written meanwhile. May be empty.
  std::function<void(const methods::distill::AnsweredPrompt&)> answered;

 private:
  bool answerable(std::int64_t record) const;
  bool usable(std::span<const std::int32_t> answer) const;

  const data::Dataset& dataset_;
  comm::ProcessGrid& grid_;
  generate::GeneratorOptions options_;
  std::int32_t pad_id_;
  generate::Generator generator_;
  Totals totals_;
};

}  // namespace fathom::train
