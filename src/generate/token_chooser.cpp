#include "generate/token_chooser.h"

#include <algorithm>
#include <cmath>

#include "comm/differentiable.h"
#include "kernels/best_logit.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"

namespace fathom::generate {

TokenChooser::TokenChooser(const model::Stage& stage, const Sampling& sampling, std::int64_t vocab)
    : stage_(stage), sampling_(sampling), vocab_(vocab > 0 ? vocab : stage.spec().vocab) {
  validate(sampling);
  require(vocab >= 0 && vocab_ <= stage.spec().vocab, ErrorKind::config, "vocab = ", vocab,
          ": the model's vocabulary has ", stage.spec().vocab, " entries");
}

std::vector<Choice> TokenChooser::choose(const Tensor& states,
                                         std::span<const SequenceView> sequences) const {
  const std::int64_t first = std::min(stage_.plan().shard.first_vocab, vocab_);
  const Tensor& whole = stage_.head().value;
  const Tensor head = whole.slice_rows(0, std::min(whole.rows(), vocab_ - first));
  const auto multiply = [&](const Tensor& logits) {
    kernels::gemm(states, kernels::Trans::no, head, kernels::Trans::yes, logits);
    return find_best(logits, sequences);
  };
  if (sampling_.greedy() && sampling_.no_repeat_ngram == 0) {
    std::vector<Choice> choices;
    for (const Best& best : multiply(Tensor::empty(states.device(), {states.rows(), head.rows()})))
      choices.push_back({best.id, static_cast<float>(best.logit - best.log_sum)});
    return choices;
  }
  // Zero in the columns of other ranks, so that the sum over ranks is every rank's logits.
  const Tensor logits = Tensor::empty(states.device(), {states.rows(), vocab_});
  if (spread()) kernels::fill(logits, 0.0f);
  const auto best = multiply(logits.slice_columns(first, head.rows()));
  if (spread()) comm::all_reduce(*stage_.tp(), logits, comm::ReduceOp::sum);
  return sample(logits, best, sequences);
}

std::vector<TokenChooser::Best> TokenChooser::find_best(
    const Tensor& local, std::span<const SequenceView> sequences) const {
  constexpr auto kWidth = static_cast<std::size_t>(kernels::kBestLogits);
  const Tensor on_device = Tensor::empty(local.device(), {local.rows(), kernels::kBestLogits});
  kernels::best_logits(local, on_device);
  std::vector<float> mine = to_host(on_device);
  for (std::size_t at = kernels::kLargestIndex; at < mine.size(); at += kWidth)
    mine[at] += static_cast<float>(stage_.plan().shard.first_vocab);
  std::vector<float> all = mine;
  if (spread()) {
    all.resize(mine.size() * static_cast<std::size_t>(stage_.tp()->size()));
    stage_.tp()->all_gather(mine.data(), mine.size() * sizeof(float), all.data());
  }
  std::vector<Best> result;
  for (std::size_t row = 0; row < sequences.size(); ++row) {
    Best best;
    double sum = 0;
    // Ranks come in the order of their ids, so that the first of equal logits has the lowest id.
    for (std::size_t at = row * kWidth; at < all.size(); at += mine.size()) {
      const double largest = all[at + kernels::kLargest], part = all[at + kernels::kExpSum];
      if (part == 0) continue;  // a rank without vocabulary
      if (best.id < 0 || largest > best.logit) {
        sum = best.id < 0 ? 0 : sum * std::exp(best.logit - largest);
        best.logit = largest;
        best.id = static_cast<std::int32_t>(all[at + kernels::kLargestIndex]);
      }
      sum += part * std::exp(largest - best.logit);
    }
    best.log_sum = best.logit + std::log(sum);
    require(std::isfinite(best.log_sum), ErrorKind::numeric, "the logits of sample ",
            sequences[row].sample, " at position ", sequences[row].ids.size(),
            " are not finite; check the weights");
    result.push_back(best);
  }
  return result;
}

std::vector<Choice> TokenChooser::sample(const Tensor& logits, const std::vector<Best>& best,
                                         std::span<const SequenceView> sequences) const {
  std::vector<float> values = to_host(logits);
  const auto width = static_cast<std::size_t>(logits.columns());
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const auto row = std::span(values).subspan(i * width, width);
    const SequenceView& sequence = sequences[i];
    ban_repeats(sequence.ids, sampling_.no_repeat_ngram, row);
    const auto position = static_cast<std::int64_t>(sequence.ids.size());
    const std::int32_t id =
        generate::choose(row, sampling_, uniform(sampling_.seed, sequence.sample, position));
    const double logit = row[static_cast<std::size_t>(id)];
    choices.push_back({id, static_cast<float>(logit - best[i].log_sum)});
  }
  return choices;
}

}  // namespace fathom::generate
