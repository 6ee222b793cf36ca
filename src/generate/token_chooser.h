#pragma once

#include <span>
#include <vector>

#include "generate/sampling.h"
#include "model/stage.h"

namespace fathom::generate {

/// The sequence behind a row of logits.
struct SequenceView {
  std::uint64_t sample = 0;
  std::span<const std::int32_t> ids;  ///< all so far: the new token's position is their number
};

/// The head of the last stage and the choice of tokens. Logits are computed on the rank that holds
/// their part of the vocabulary; what is chosen does not depend on how it is cut.
class TokenChooser {
 public:
  /// Chooses among the ids below `vocab` (0: all of the model's): those beyond, which pad a head,
  /// are no part of the softmax either. The stage must outlive the chooser. Throws Error(config)
  /// for sampling out of range, and for more ids than the model has.
  TokenChooser(const model::Stage& stage, const Sampling& sampling, std::int64_t vocab = 0);

  /// One token for each row of `states` [m, embed_dim]. Collective over the tensor group; every
  /// rank gets the same. Throws Error(numeric) naming sample and position for logits that are not
  /// finite.
  std::vector<Choice> choose(const Tensor& states, std::span<const SequenceView> sequences) const;

 private:
  // The largest logit of a row over all ids that count, and the logarithm of the sum of all
  // exponentials.
  struct Best {
    std::int32_t id = -1;
    double logit = 0, log_sum = 0;
  };
  std::vector<Best> find_best(const Tensor& local, std::span<const SequenceView> sequences) const;
  std::vector<Choice> sample(const Tensor& logits, const std::vector<Best>& best,
                             std::span<const SequenceView> sequences) const;
  bool spread() const { return stage_.tp() != nullptr && stage_.tp()->size() > 1; }

  const model::Stage& stage_;
  Sampling sampling_;
  std::int64_t vocab_;  // ids that count
};

}  // namespace fathom::generate
