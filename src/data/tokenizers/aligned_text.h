#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace fathom::data {

/// Half-open range of bytes of a text that may already have been rewritten. Not a ByteRange: those
/// always speak of the original.
struct Slice {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// A stretch of text on its way through the pipeline, which knows for each of its bytes the
/// characters of the original that it stands for.
class AlignedText {
 public:
  /// Unchanged text that starts at byte `origin` of the original.
  AlignedText(std::string_view text, std::uint32_t origin) : text_(text), origin_(origin) {}

  const std::string& text() const { return text_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(text_.size()); }

  /// Original bytes that the non-empty slice covers, widened to whole characters: from the first
  /// byte's beginning to the last byte's end.
  ByteRange source(Slice slice) const;

  /// The slice as a text of its own.
  AlignedText part(Slice slice) const;

 private:
  friend class AlignedTextBuilder;

  std::string text_;
  std::uint32_t origin_ = 0;
  std::vector<ByteRange> sources_;  // one per byte; empty while the text is unchanged
};

/// Writes a changed copy of an AlignedText from left to right.
class AlignedTextBuilder {
 public:
  explicit AlignedTextBuilder(const AlignedText& from);

  /// Copies a slice of the old text with its alignment.
  void keep(Slice slice);
  /// Appends new bytes that stand for the given original bytes.
  void put(std::string_view bytes, ByteRange source);

  std::uint32_t size() const { return result_.size(); }
  AlignedText build() && { return std::move(result_); }

 private:
  const AlignedText& from_;
  AlignedText result_;
};

}  // namespace fathom::data
