#include <algorithm>
#include <limits>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/files.h"
#include "data/spans/crc32.h"
#include "data/spans/span_file.h"
#include "data/spans/span_file_layout.h"

namespace fathom::data::spans {
namespace {

/// Spans as pairs of the given element type.
template <typename T>
void write_spans(h5::File& file, const char* name, const std::vector<Span>& spans) {
  std::vector<T> pairs;
  pairs.reserve(2 * spans.size());
  for (const Span& span : spans) {
    pairs.push_back(static_cast<T>(span.begin));
    pairs.push_back(static_cast<T>(span.end));
  }
  file.write(name, {spans.size(), 2}, std::span<const T>(pairs), h5::Storage::compressed);
}

void write_info(h5::File& file, const SpanFileInfo& info) {
  file.set_attribute("/", layout::kFormat, std::string_view(layout::kFormatName));
  file.set_attribute("/", layout::kVersion, layout::kVersionNumber);
  file.set_attribute("/", layout::kDefinition, info.definition);
  file.set_attribute("/", layout::kExtractor, info.extractor);
  file.set_attribute("/", layout::kModel, info.model);
  file.set_attribute("/", layout::kModelSha256, info.model_sha256);
  file.set_attribute("/", layout::kTokenizer, info.tokenizer);
  file.set_attribute("/", layout::kTokens, info.tokens);
}

}  // namespace

SpanFileWriter::SpanFileWriter(std::filesystem::path path, SpanFileInfo info)
    : path_(std::move(path)), info_(std::move(info)) {
  files::check_writable(path_);
}

SpanFileWriter::~SpanFileWriter() {
  std::error_code ignored;
  std::filesystem::remove(path_.string() + ".tmp", ignored);
}

void SpanFileWriter::append(std::span<const std::int32_t> ids, const TokenSpans& spans) {
  check_spans(spans, static_cast<std::int64_t>(ids.size()),
              str(path_.string(), ": record ", records()));
  lengths_.push_back(static_cast<std::uint32_t>(ids.size()));
  prompt_lengths_.push_back(static_cast<std::uint32_t>(spans.prompt_length));
  checksums_.push_back(crc32_of(ids));
  words_.insert(words_.end(), spans.words.begin(), spans.words.end());
  phrases_.insert(phrases_.end(), spans.phrases.begin(), spans.phrases.end());
  for (const PhraseKind kind : spans.kinds) kinds_.push_back(static_cast<std::uint8_t>(kind));
  word_offsets_.push_back(words_.size());
  phrase_offsets_.push_back(phrases_.size());
}

void SpanFileWriter::finish() {
  require(records() > 0, ErrorKind::data, path_.string(), ": no record to write");
  const std::uint32_t longest = *std::max_element(lengths_.begin(), lengths_.end());
  const bool narrow = longest <= std::numeric_limits<std::uint16_t>::max();
  const auto write_pairs = narrow ? write_spans<std::uint16_t> : write_spans<std::uint32_t>;
  const std::filesystem::path temporary = path_.string() + ".tmp";
  h5::File file = h5::File::create(temporary);
  write_info(file, info_);
  file.write(layout::kLengths, lengths_, h5::Storage::compressed);
  file.write(layout::kPromptLengths, prompt_lengths_, h5::Storage::compressed);
  file.write(layout::kChecksums, checksums_, h5::Storage::compressed);
  file.write(layout::kWordOffsets, word_offsets_, h5::Storage::compressed);
  file.write(layout::kPhraseOffsets, phrase_offsets_, h5::Storage::compressed);
  file.write(layout::kKinds, kinds_, h5::Storage::compressed);
  write_pairs(file, layout::kWords, words_);
  write_pairs(file, layout::kPhrases, phrases_);
  file.close();
  files::rename_file(temporary, path_);
}

}  // namespace fathom::data::spans
