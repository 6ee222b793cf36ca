#pragma once

#include <memory>

#include "generate/cached_stage.h"
#include "generate/decoder.h"
#include "generate/exit_counts.h"
#include "generate/exit_gate.h"
#include "generate/late_step.h"

namespace fathom::generate {

/// Decoding with late layers that vote, where the router before them says for each token which of
/// them decide: y = sum of G_i N_i(H_i) over the kept ones, and what lies above the deepest does
/// not run for it. Rows that leave early drop out of the matrix that goes through deeper layers;
/// what becomes of the keys that they owe them is ExitCache's. A stage behind the one where a row
/// leaves gets its voting states alone, for the last stage, and the row itself only when it moves
/// on. Prompts run through all layers.
class ExitDecoder : public Decoder {
 public:
  /// Stage and vote, which must have a router, must outlive the decoder; options are those of
  /// check(). Collective over the pipeline axis.
  ExitDecoder(const model::Stage& stage, comm::Communicator& pp, std::int64_t slots,
              std::int64_t capacity, const methods::mode::LateVote& vote,
              const ExitOptions& options);

  Tensor run(int group, const Step& step, StageLink& link) override;

  /// Of this stage's part: tokens and steps on the last one, and each layer where it is.
  const ExitCounts& counts() const { return counts_; }

 private:
  // States of a step in this stage's late layers.
  struct States {
    Tensor matrix;
    std::vector<Tensor> votes;  // [k] states of the rows that each late layer decides on, so far
  };
  bool has_gate() const;
  std::vector<std::int64_t> depths_of(const std::vector<float>& weights) const;
  Tensor run_early(int group, const Step& step, StageLink& link);
  States receive(int group, const LateStep& late, StageLink& link);
  void run_block(const LateStep& late, std::int64_t block, bool counts, States& states);
  void send(int group, const LateStep& late, const States& states, StageLink& link) const;
  Tensor mix(const LateStep& late, const States& states) const;
  std::vector<std::int32_t> places(const RowSet& set) const;

  CachedStage blocks_;
  const model::Stage& stage_;
  const methods::mode::LateVote& vote_;
  LateBlocks late_;
  std::int64_t capacity_;
  ExitGate gate_;
  ExitLedger ledger_;
  std::int64_t places_;  // of waiting states, for each slot
  Tensor waiting_;       // [slots * places_, hidden]
  ExitCounts counts_;
};

}  // namespace fathom::generate
