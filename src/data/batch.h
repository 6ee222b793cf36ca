#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/token_file.h"

namespace fathom::data {

/// The label of a position that is not supervised.
inline constexpr std::int32_t kNoLabel = -100;

/// Where the text of a micro-batch comes from, which decides what is learnt from it.
enum class Role : std::uint8_t {
  dataset,       ///< records of the training set
  student_text,  ///< prompts of the training set with what the student answered
  corpus,        ///< records of the second corpus
  chosen,        ///< the teacher's answers of prepared pairs
  rejected,      ///< the student's answers of prepared pairs
};
inline constexpr int kRoles = 5;

/// Sequences packed end to end without padding: tokens() positions in sequences() sequences. An
/// empty one (no sequence) is valid and is what a rank with fewer micro-batches runs; it adds
/// exactly nothing to any sum.
struct MicroBatch {
  std::vector<std::int32_t> ids;        ///< [tokens] input ids
  std::vector<std::int32_t> labels;     ///< [tokens] id to predict AT this position, or kNoLabel
  std::vector<std::int32_t> positions;  ///< [tokens] 0, 1, ... within each sequence
  std::vector<std::int32_t> cu_seqlens{
      0};  ///< [sequences + 1] where each sequence starts; the total
  std::vector<std::int64_t>
      sample_index;  ///< [sequences] global sample number (keys random numbers)
  std::vector<std::int64_t> record_index;  ///< [sequences] record of the token file (keys caches)
  std::vector<std::int32_t> prompts;       ///< [sequences] positions of its prompt, at least one
  std::int64_t label_tokens = 0;           ///< labels that are not kNoLabel
  Role role = Role::dataset;

  std::int64_t sequences() const { return static_cast<std::int64_t>(cu_seqlens.size()) - 1; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(ids.size()); }
  bool empty() const { return sequences() == 0; }
};

/// Sums over micro-batches: what the denominators of the losses and the cost of a step come from.
struct BatchCounts {
  std::int64_t label_tokens = 0;
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;  ///< with a supervised token
  std::int64_t squares = 0;    ///< of the sequences' lengths: attention costs so much

  BatchCounts& operator+=(const BatchCounts& other);
  friend bool operator==(const BatchCounts&, const BatchCounts&) = default;
};
BatchCounts count(const MicroBatch& batch);

/// Supervised tokens of each sequence.
std::vector<std::int64_t> supervised_rows(const MicroBatch& batch);

/// The counts of a whole step, over all its micro-batches and ranks, by role.
class RoleCounts {
 public:
  RoleCounts() = default;
  /// A step of the data set alone.
  explicit RoleCounts(const BatchCounts& dataset) { (*this)[Role::dataset] = dataset; }

  BatchCounts& operator[](Role role) { return counts_[static_cast<std::size_t>(role)]; }
  const BatchCounts& operator[](Role role) const { return counts_[static_cast<std::size_t>(role)]; }
  BatchCounts total() const;

 private:
  std::array<BatchCounts, kRoles> counts_;
};

/// Appends a record of n ids as n - 1 positions, supervised from max(prompt_length, 1) - 1 on, or
/// all of them if its prompt is to be learnt.
void append(MicroBatch& batch, const TokenRecord& record, std::int64_t sample,
            std::int64_t record_number);

/// Packs a padded batch as Hugging Face models take it: three arrays of [rows x length], row-major;
/// mask 1 for tokens and 0 for the padding on the right; labels not shifted (labels[t] is the label
/// *of* token t), -100 where unsupervised. All attended positions are kept, so outputs compare one
/// for one with those at mask 1. sample_index and record_index are the row numbers; a prompt ends
/// with the position that predicts the first label. Throws
/// Error(data) naming row and column for left padding, holes, a row without a token, a label in the
/// padding, or an id or label outside [0, vocab_size).
MicroBatch from_padded(std::span<const std::int32_t> ids, std::span<const std::int32_t> mask,
                       std::span<const std::int32_t> labels, std::int64_t rows, std::int64_t length,
                       std::int32_t vocab_size);

/// The sequences [begin, end) as a batch of their own.
MicroBatch slice(const MicroBatch& batch, std::int64_t begin, std::int64_t end);

}  // namespace fathom::data
