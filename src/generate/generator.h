#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "comm/process_grid.h"
#include "generate/decode_time.h"
#include "generate/exit_counts.h"
#include "generate/exit_options.h"
#include "generate/roster.h"
#include "generate/token_chooser.h"
#include "methods/mode/late_vote.h"

namespace fathom::generate {

struct GeneratorOptions {
  Sampling sampling = {};
  /// Ids that may be chosen: the size of the tokenizer where it is smaller than the model's head,
  /// whose other rows are padding and have no text; 0: all of the model's.
  std::int64_t vocab = 0;
  std::int64_t max_new = 128;  ///< tokens added to a prompt
  std::int64_t context = 0;    ///< tokens of a sequence, prompt included; 0: what the model takes
  /// Sequences that end with one of these are complete; empty goes on to max_new.
  std::vector<std::int32_t> stop_ids = {};
  std::int64_t batch = 8;           ///< sequences that run together
  std::int64_t prompt_rows = 2048;  ///< tokens of new prompts that one step takes in, at least one
  /// Whether generate() is given up when any rank of the grid was asked to stop. It is then
  /// collective over the whole grid.
  bool stoppable = false;
  /// Late layers that decide on each token together; null for the last layer alone. Must outlive
  /// the generator.
  const methods::mode::LateVote* vote = nullptr;
  ExitOptions exit = {};  ///< how tokens leave these layers early
};

/// Tokens of each running sequence between two looks at whether to stop: so few that a cluster's
/// usual notice of minutes suffices, so many that the stages of a pipeline, which meet for it, lose
/// less than a hundredth of their time.
inline constexpr int kRoundsBetweenVotes = 128;

/// Called for every new token, in the order in which each sequence grows: (number of the prompt,
/// token).
using TokenCallback = std::function<void(std::size_t, const Choice&)>;

/// Called for every sequence as soon as it is complete: (number of the prompt, prompt and new
/// tokens).
using EndCallback = std::function<void(std::size_t, std::span<const std::int32_t>)>;

/// Continues prompts with a model that is spread over the tensor and pipeline axes of a grid.
/// Sequences are decoded together; one that ends makes room for the next prompt at once. Over a
/// pipeline they are divided into as many groups as there are stages, whose steps follow each other
/// through the stages, so that none of them waits while there are sequences enough.
class Generator {
 public:
  /// Stage and grid must outlive the generator. Throws Error(config) naming an option out of range,
  /// or early exits that the late layers do not allow.
  Generator(const model::Stage& stage, comm::ProcessGrid& grid, GeneratorOptions options);

  /// Continuations in the order of the prompts, the same on every rank. Collective over tensor and
  /// pipeline axis, with the same prompts on each of their ranks; data-parallel ranks are on their
  /// own. Throws Error(data) naming a prompt that is empty, has ids outside the vocabulary, or
  /// leaves no room in the model's context, and Error(numeric) for logits that are not finite. With
  /// `stoppable`, throws Stopped on every rank of the grid, within kRoundsBetweenVotes tokens of a
  /// sequence, unless all ranks are done by then.
  std::vector<Continuation> generate(const std::vector<Prompt>& prompts,
                                     const TokenCallback& on_token = {},
                                     const EndCallback& on_end = {});

  /// Where the tokens of all generate() so far left, on every rank of the replica; all zero without
  /// early exits.
  const ExitCounts& exit_counts() const { return exit_counts_; }

  /// Of all generate() so far, on this rank.
  const DecodeTime& decode_time() const { return decode_time_; }

 private:
  std::int64_t context() const;
  void check(const std::vector<Prompt>& prompts) const;
  RosterLimits limits(const std::vector<Prompt>& prompts) const;
  // Nothing if `stop`, which may be empty, said so first.
  std::optional<std::vector<Continuation>> run(const std::vector<Prompt>& prompts,
                                               const TokenCallback& on_token,
                                               const EndCallback& on_end,
                                               const std::function<bool()>& stop);
  void wait_for_replicas();

  const model::Stage& stage_;
  comm::ProcessGrid& grid_;
  GeneratorOptions options_;
  TokenChooser chooser_;
  ExitCounts exit_counts_;
  DecodeTime decode_time_;
};

}  // namespace fathom::generate
