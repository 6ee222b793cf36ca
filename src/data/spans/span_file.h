#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/h5.h"
#include "data/spans/token_spans.h"

namespace fathom::data::spans {

/// What a span file says about itself (its attributes; data_tools/FORMAT.md describes the layout).
struct SpanFileInfo {
  std::string definition = {};    ///< what words and phrases are: definition_of(options)
  std::string extractor = {};     ///< the program that found them: "fathom", "spacy 3.8.18"
  std::string model = {};         ///< package and version
  std::string model_sha256 = {};  ///< of the model's content
  std::string tokenizer = {};     ///< fingerprint, the token file's
  std::string tokens = {};        ///< content fingerprint of the token file
};

/// The options, and the rules that are not optional, as the text that span files are compared by.
std::string definition_of(const Options& options);

/// Writes a span file record by record, in the order of the token file. Holds 8 bytes a span until
/// finish(); until then nothing appears under the final name.
class SpanFileWriter {
 public:
  /// Throws Error(io) if nothing can be written there.
  SpanFileWriter(std::filesystem::path path, SpanFileInfo info);
  /// Without a finish() that returned, removes what was written.
  ~SpanFileWriter();
  SpanFileWriter(const SpanFileWriter&) = delete;
  SpanFileWriter& operator=(const SpanFileWriter&) = delete;

  /// The spans of the next record, whose ids are given. Throws Error(data) for spans that a reader
  /// would refuse.
  void append(std::span<const std::int32_t> ids, const TokenSpans& spans);

  /// Writes the HDF5 file and renames it into place. Throws Error(io) if the disk fails.
  void finish();

  std::int64_t records() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t words() const { return static_cast<std::int64_t>(words_.size()); }
  std::int64_t phrases() const { return static_cast<std::int64_t>(phrases_.size()); }

 private:
  std::filesystem::path path_;
  SpanFileInfo info_;
  std::vector<std::uint32_t> lengths_;
  std::vector<std::uint32_t> prompt_lengths_;
  std::vector<std::uint32_t> checksums_;
  std::vector<std::uint64_t> word_offsets_{0};
  std::vector<std::uint64_t> phrase_offsets_{0};
  std::vector<Span> words_;
  std::vector<Span> phrases_;
  std::vector<std::uint8_t> kinds_;
};

/// An open span file: the index in memory (28 bytes a record), spans read when asked for. Safe from
/// several threads.
class SpanFile {
 public:
  /// Throws Error(io) for a missing file; Error(data), naming file, value and what would be right,
  /// for one that is truncated, malformed or of another format version.
  static SpanFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const SpanFileInfo& info() const { return info_; }
  std::int64_t records() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t words() const { return static_cast<std::int64_t>(word_offsets_.back()); }
  std::int64_t phrases() const { return static_cast<std::int64_t>(phrase_offsets_.back()); }
  /// Ids of a record.
  std::int64_t length(std::int64_t record) const {
    return lengths_.at(static_cast<std::size_t>(record));
  }
  std::uint32_t checksum(std::int64_t record) const {
    return checksums_.at(static_cast<std::size_t>(record));
  }

  /// Throws Error(data) unless the file was made of this token file: the same records, ids and
  /// tokenizer. The message says how to make it again.
  void require_made_of(const TokenFile& tokens) const;
  /// Throws Error(data) unless words and phrases are what these options ask for.
  void require_definition(const Options& options) const;

  /// The spans of a record. Throws Error(data) for a number out of range, and for spans that are
  /// out of order or beyond the record.
  TokenSpans spans(std::int64_t record) const;
  /// The same, after checking `ids` against the record's checksum.
  TokenSpans spans(std::int64_t record, std::span<const std::int32_t> ids) const;

 private:
  explicit SpanFile(h5::File file);
  void check_index() const;
  std::vector<Span> read_spans(const char* dataset, std::uint64_t begin, std::uint64_t end) const;
  std::string where(std::int64_t record) const;

  std::filesystem::path path_;
  SpanFileInfo info_;
  std::vector<std::uint32_t> lengths_;
  std::vector<std::uint32_t> prompt_lengths_;
  std::vector<std::uint32_t> checksums_;
  std::vector<std::uint64_t> word_offsets_;
  std::vector<std::uint64_t> phrase_offsets_;
  bool narrow_ = false;  ///< spans are stored in 16 bits
  std::unique_ptr<std::mutex> reading_ = std::make_unique<std::mutex>();
  h5::File file_;
};

/// Throws Error(data), beginning with `where`, unless the spans keep the promises of TokenSpans for
/// a record of so many ids.
void check_spans(const TokenSpans& spans, std::int64_t length, const std::string& where);

}  // namespace fathom::data::spans
