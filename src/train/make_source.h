#pragma once

#include <functional>
#include <memory>

#include "train/batch_source.h"
#include "train/engine.h"

namespace fathom::train {

/// The data sets of a run.
struct RunData {
  std::unique_ptr<data::Dataset> train;     ///< with pairs, the teacher's answers
  std::unique_ptr<data::Dataset> rejected;  ///< with pairs, the student's; else null
  std::unique_ptr<data::Dataset> corpus;    ///< null without one
  std::unique_ptr<data::Dataset> eval;      ///< null without one
};

/// Opens what a configuration names, with every id and fingerprint checked if `check_all`. Throws
/// what open_dataset throws.
RunData open_data(const TrainConfig& config, const EnginePlan& plan, bool check_all);

/// Opens a token file for a model: checks that the tokenizer's ids fit the vocabulary. Prompts are
/// supervised only if they are to be learnt.
std::unique_ptr<data::Dataset> open_dataset(const std::string& path, std::int64_t context,
                                            Overlong policy, std::int64_t vocab, bool check_all,
                                            bool learn_prompts = false);

/// The source that a configuration asks for. Data and engine must outlive it. `progress` is called
/// between the tokens that it generates.
std::unique_ptr<BatchSource> make_source(const TrainConfig& config, Engine& engine,
                                         const RunData& data, std::function<void()> progress);

}  // namespace fathom::train
