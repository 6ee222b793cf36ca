#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/mapped_ids.h"

namespace fathom::data {

/// What a token file says about itself (its attributes; data_tools/FORMAT.md describes the layout).
struct TokenFileInfo {
  std::int32_t vocab_size = 0;  ///< every id is below it
  std::int32_t eos_id = -1;     ///< the id that ends a record; -1: none
  std::int64_t block = 0;  ///< text was joined and cut into blocks of so many inputs; 0: it was not
  std::string template_name;  ///< "plain", "chatml", ...
  std::string tokenizer;      ///< fingerprints: 16 hexadecimal digits of an xxh64
  std::string template_text;
  std::string source;
  std::string content;  ///< over all of the above and every array; set by the writer
};

/// One record of n >= 2 ids. Position p (0 <= p < n - 1) predicts ids[p + 1]; the first supervised
/// prediction is at prompt_length - 1 (0 for a prompt length of 0, where all is supervised), or at
/// 0 if the prompt is to be learnt as well.
struct TokenRecord {
  std::span<const std::int32_t> ids;
  std::int32_t prompt_length = 0;
  bool learn_prompt = false;  ///< not in the file: what a data set was asked for
};

/// Writes a token file record by record with memory for the index only: ids go to a spill file
/// beside the target until their number is known. Until finish() nothing appears under the final
/// name.
class TokenFileWriter {
 public:
  /// Throws Error(io) if the spill file cannot be made.
  TokenFileWriter(std::filesystem::path path, TokenFileInfo info);
  /// Without finish(), removes what was written.
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  /// Appends a record; `source` is its number in the source (line or document), -1 if it has none.
  /// Throws Error(data) unless it has two ids or more, all in the vocabulary, and a response.
  void append(std::span<const std::int32_t> ids, std::int32_t prompt_length,
              std::int64_t source = -1);

  /// `source` fingerprint is known only after the last byte was read, hence it is given here.
  /// Writes the HDF5 file and renames it into place; returns the content fingerprint. Throws
  /// Error(data) if no record was appended and Error(io) if the disk fails.
  std::string finish(const std::string& source);

  std::int64_t records() const { return static_cast<std::int64_t>(prompt_lengths_.size()); }
  std::int64_t ids() const { return offsets_.back(); }

 private:
  struct Spill;
  void copy_ids(h5::File& file);

  std::filesystem::path path_;
  TokenFileInfo info_;
  std::unique_ptr<Spill> spill_;
  std::vector<std::int64_t> offsets_{0};
  std::vector<std::int32_t> prompt_lengths_;
  std::vector<std::int64_t> sources_;
};

/// An open token file: the index in memory, the ids mapped from disk (ranks of one node share them
/// in the page cache). Immutable; safe from several threads; makes no HDF5 call after open().
class TokenFile {
 public:
  enum class Check {
    all,    ///< the index, every id, and the content fingerprint: reads the file once
    index,  ///< the index only: for ranks beside one that checks all
  };

  /// Throws Error(io) for a missing file; Error(data), naming file, record, value and what would be
  /// right, for a file that is truncated, malformed, empty or changed since it was written.
  static TokenFile open(const std::filesystem::path& path, Check check = Check::all);

  const std::filesystem::path& path() const { return path_; }
  const TokenFileInfo& info() const { return info_; }
  std::int64_t records() const { return static_cast<std::int64_t>(prompt_lengths_.size()); }

  TokenRecord record(std::int64_t index) const;
  /// Number of ids of a record, without touching the ids.
  std::int64_t length(std::int64_t index) const {
    const auto i = static_cast<std::size_t>(index);
    return offsets_.at(i + 1) - offsets_[i];
  }
  std::int32_t prompt_length(std::int64_t index) const {
    return prompt_lengths_.at(static_cast<std::size_t>(index));
  }
  /// Number of the record's line or document in its source, -1 if it has none.
  std::int64_t source(std::int64_t index) const {
    return sources_.at(static_cast<std::size_t>(index));
  }

 private:
  TokenFile() = default;
  void check_index() const;
  void check_content() const;

  std::filesystem::path path_;
  TokenFileInfo info_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int32_t> prompt_lengths_;
  std::vector<std::int64_t> sources_;
  MappedIds ids_;
};

}  // namespace fathom::data
