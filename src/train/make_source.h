#pragma once

#include <functional>
#include <memory>

#include "train/batch_source.h"
#include "train/engine.h"
#include "train/shared_tokenizer.h"

namespace fathom::train {

/// The data sets of a run.
struct RunData {
  std::unique_ptr<data::Dataset> train;     ///< with pairs, the teacher's answers
  std::unique_ptr<data::Dataset> rejected;  ///< with pairs, the student's; else null
  std::unique_ptr<data::Dataset> corpus;    ///< null without one
  std::unique_ptr<data::Dataset> eval;      ///< null without one
};

/// Opens what a configuration names, with every id and fingerprint checked if `check_all`; all
/// files must be of one tokenizer. Throws what open_dataset throws.
RunData open_data(const TrainConfig& config, const EnginePlan& plan, bool check_all);

/// How a model reads token files.
struct DatasetUse {
  std::int64_t context = 0;  ///< tokens of a record
  Overlong policy = Overlong::refuse;
  std::int64_t vocab = 0;         ///< ids that the model has
  ModelTokenizer tokenizer = {};  ///< whose files it takes
  bool check_all = true;          ///< every id and the content's fingerprint; one rank is enough
};

/// Opens a token file for a model: checks that its tokenizer is the model's and has no id that the
/// model lacks. Prompts are supervised only if they are to be learnt.
std::unique_ptr<data::Dataset> open_dataset(const std::string& path, const DatasetUse& use,
                                            bool learn_prompts = false);

/// The source that a configuration asks for. Data and engine must outlive it. A source that
/// generates tells of it: see OnPolicySource::set_observers.
std::unique_ptr<BatchSource> make_source(const TrainConfig& config, Engine& engine,
                                         const RunData& data, std::function<void()> progress,
                                         std::function<void(const data::MicroBatch&)> written);

}  // namespace fathom::train
