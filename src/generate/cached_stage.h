#pragma once

#include <optional>

#include "generate/kv_cache.h"
#include "generate/step.h"
#include "model/stage.h"

namespace fathom::generate {

/// The blocks of one stage and a cache of what they have seen. Rows run without a tape: prompts by
/// the kernels of training, running rows against the cache. Linear layers see both as one matrix.
/// Several rows of one sequence may run together: each sees what its cache then holds up to its own
/// position, so that the sequence's earlier ones must be there or among them.
class CachedStage {
 public:
  /// The stage must outlive it.
  CachedStage(const model::Stage& stage, std::int64_t slots, std::int64_t capacity);

  const model::Stage& stage() const { return stage_; }

  /// What takes rows through blocks, after which the cache has them; must not outlive this. `ids`
  /// are needed for an embedding.
  model::Pass pass(const BlockRows& rows, const std::vector<std::int32_t>& ids = {});

  /// Gives the cache of one block the keys and values that it would make of the states x
  /// [rows, hidden] of running rows; the block does not run.
  void store_keys_values(const BlockRows& rows, std::int64_t layer, const Tensor& x);

 private:
  model::Pass pass_in(KvCache& cache, const BlockRows& rows, const std::vector<std::int32_t>& ids,
                      std::optional<std::int64_t> layer);

  const model::Stage& stage_;
  KvCache cache_;
  std::optional<KvCache> aside_;  // of blocks that run beside others, by the layer of these
  std::shared_ptr<model::PassState> state_;  // of the stage's extension
};

}  // namespace fathom::generate
