#pragma once

#include <span>
#include <vector>

#include "generate/exit_options.h"
#include "generate/step.h"

namespace fathom::generate {

/// A running sequence's row in the late layers of one step.
struct LateRow {
  std::int32_t slot = 0, position = 0;
  std::int32_t scored = -1;       ///< its number among the step's scored rows; -1: it has waited
  std::int64_t from = 0, to = 0;  ///< runs through the blocks [from, to)
  std::int64_t until = 0;         ///< and gives the blocks [to, until) keys and values only

  bool runs(std::int64_t block) const { return from <= block && block < to; }
};

/// Which rows run through which late layers: of each sequence, the tokens that have left early and
/// how far they have come. A function of the steps and of where their rows leave, so that every
/// stage with late layers keeps the same one.
///
/// Tokens wait in the order of their positions, those behind no deeper than those in front. One
/// that goes deeper takes the waiting ones along as far as it goes, which gives every layer that
/// runs the keys of all tokens before. A token by which `flush` of them would wait runs to the end
/// of the model, and takes all along. What waits when its sequence ends is forgotten.
class ExitLedger {
 public:
  /// Late layers are the blocks [gate, layers).
  ExitLedger(const ExitOptions& options, std::int64_t slots, std::int64_t gate,
             std::int64_t layers);

  /// The rows of a step's running sequences, in the order of the step, each behind its sequence's
  /// waiting rows that move. `depths` [scored rows] are blocks that the rows need: above gate.
  std::vector<LateRow> plan(const Step& step, std::span<const std::int64_t> depths);

 private:
  struct Waiting {
    std::int32_t position = 0;
    std::int64_t depth = 0;  // blocks that it has run through
  };
  void append(std::vector<LateRow>& rows, const LateRow& newest);

  ExitOptions options_;
  std::int64_t gate_, layers_;
  std::vector<std::vector<Waiting>> waiting_;  // by slot
};

}  // namespace fathom::generate
