#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/overlong.h"
#include "data/token_file.h"

namespace fathom::data {

/// "refuse", "truncate" or "skip"; the reverse throws Error(config) for anything else.
const char* to_string(Overlong policy);
Overlong parse_overlong(const std::string& name);

/// What the policy did, for the run's header.
struct DatasetReport {
  std::int64_t records = 0;       ///< in the file
  std::int64_t kept = 0;          ///< in the data set
  std::int64_t truncated = 0;     ///< kept, but cut
  std::int64_t skipped = 0;       ///< left out for their length (Overlong::skip)
  std::int64_t unlabelled = 0;    ///< left out because truncation left no label
  std::int64_t longest = 0;       ///< inputs of the longest record of the file
  std::int64_t label_tokens = 0;  ///< in one epoch
};

/// A token file seen through a model's context length: the records that training can use, each cut
/// to at most context + 1 ids (context inputs and their labels). With `learn_prompts` every
/// position of a record is supervised, else those of the response. Immutable, safe from several
/// threads.
class Dataset {
 public:
  /// Throws Error(config) for a context below 1, Error(data) for an overlong record under `refuse`
  /// and when no record is left.
  Dataset(std::shared_ptr<const TokenFile> file, std::int64_t context, Overlong policy,
          bool learn_prompts = false);

  std::int64_t records() const { return static_cast<std::int64_t>(kept_.size()); }
  TokenRecord record(std::int64_t index) const;
  /// Positions that a record takes in a batch: one less than its ids, at most the context.
  std::int64_t inputs(std::int64_t index) const;
  /// Supervised positions of a record; at least one. From the index alone.
  std::int64_t labels(std::int64_t index) const;
  std::int32_t prompt_length(std::int64_t index) const {
    return file_->prompt_length(file_record(index));
  }
  /// Number of the record in the token file: the key of anything cached for it.
  std::int64_t file_record(std::int64_t index) const {
    return kept_.at(static_cast<std::size_t>(index));
  }

  const TokenFile& file() const { return *file_; }
  std::shared_ptr<const TokenFile> shared_file() const { return file_; }
  std::int64_t context() const { return context_; }
  Overlong policy() const { return policy_; }
  const DatasetReport& report() const { return report_; }

 private:
  std::shared_ptr<const TokenFile> file_;
  std::int64_t context_;
  Overlong policy_;
  bool learn_prompts_;
  std::vector<std::int64_t> kept_;
  DatasetReport report_;
};

}  // namespace fathom::data
