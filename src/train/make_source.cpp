#include "train/make_source.h"

#include "train/corpus_source.h"
#include "train/dataset_source.h"
#include "train/on_policy_source.h"
#include "train/pair_source.h"

namespace fathom::train {

std::unique_ptr<data::Dataset> open_dataset(const std::string& path, const DatasetUse& use,
                                            bool learn_prompts) {
  using data::TokenFile;
  auto file = std::make_shared<const TokenFile>(
      TokenFile::open(path, use.check_all ? TokenFile::Check::all : TokenFile::Check::index));
  require(file->info().vocab_size <= use.vocab, ErrorKind::data, path, ": its tokenizer has ",
          file->info().vocab_size, " ids, the model's vocabulary ", use.vocab,
          "; tokenize the text with the model's own tokenizer");
  require_made_with(use.tokenizer, *file);
  return std::make_unique<data::Dataset>(std::move(file), use.context, use.policy, learn_prompts);
}

RunData open_data(const TrainConfig& config, const EnginePlan& plan, bool check_all) {
  const bool any = config.data.any_tokenizer;
  const DatasetUse use{
      .context = plan.context,
      .policy = config.data.overlong,
      .vocab = plan.loss_vocab,
      .tokenizer = read_model_tokenizer(tokenizer_folder(config), any || !check_all),
      .check_all = check_all};
  const auto open = [&](const std::string& path, bool learn_prompts = false) {
    return path.empty() ? nullptr : open_dataset(path, use, learn_prompts);
  };
  std::string train = config.data.train, rejected;
  if (config.distill.method == DistillMethod::contrastive) {
    const PairFiles pairs = pair_files(config.distill.pairs);
    train = pairs.chosen;
    rejected = pairs.rejected;
  }
  RunData data{.train = open(train, config.loss.on_prompt),
               .rejected = open(rejected),
               .corpus = open(config.data.corpus),
               .eval = open(config.data.eval)};
  for (const data::Dataset* beside : {data.corpus.get(), data.eval.get()})
    if (beside != nullptr && !any) require_same_tokenizer(data.train->file(), beside->file());
  return data;
}

std::unique_ptr<BatchSource> make_source(const TrainConfig& config, Engine& engine,
                                         const RunData& data, std::function<void()> progress,
                                         std::function<void(const data::MicroBatch&)> written) {
  const auto seed = static_cast<std::uint64_t>(config.run.seed);
  const BatchConfig& batch = config.batch;
  const data::BatchPlan plan{batch.micro_batches, batch.micro_batch};
  std::unique_ptr<BatchSource> source;
  if (config.distill.generates()) {
    auto on_policy = std::make_unique<OnPolicySource>(
        *data.train, plan, seed, config.distill, engine.student(), engine.grid(), engine.vote());
    on_policy->set_observers(std::move(progress), std::move(written));
    source = std::move(on_policy);
  } else if (data.rejected) {
    source = std::make_unique<PairSource>(*data.train, *data.rejected, plan, seed, engine.grid());
  } else {
    source = std::make_unique<DatasetSource>(*data.train, plan, seed, engine.grid());
  }
  if (!data.corpus) return source;
  const data::BatchPlan beside{batch.corpus_micro_batches, batch.micro_batch};
  return std::make_unique<CorpusSource>(std::move(source), *data.corpus, beside, seed,
                                        engine.grid());
}

}  // namespace fathom::train
