#include "data/tokenizers/aligned_text.h"

namespace fathom::data {
namespace {

bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

ByteRange AlignedText::source(Slice slice) const {
  if (!sources_.empty()) return {sources_[slice.begin].begin, sources_[slice.end - 1].end};
  while (continues_character(text_[slice.begin])) --slice.begin;
  while (slice.end < text_.size() && continues_character(text_[slice.end])) ++slice.end;
  return {origin_ + slice.begin, origin_ + slice.end};
}

AlignedText AlignedText::part(Slice slice) const {
  AlignedText result(std::string_view(text_).substr(slice.begin, slice.end - slice.begin),
                     origin_ + slice.begin);
  if (!sources_.empty()) {
    result.sources_.assign(sources_.begin() + slice.begin, sources_.begin() + slice.end);
  }
  return result;
}

AlignedTextBuilder::AlignedTextBuilder(const AlignedText& from)
    : from_(from), result_(std::string_view(), from.origin_) {
  result_.text_.reserve(from.text_.size());
  result_.sources_.reserve(from.text_.size());
}

void AlignedTextBuilder::keep(Slice slice) {
  result_.text_.append(from_.text_, slice.begin, slice.end - slice.begin);
  for (std::uint32_t i = slice.begin; i < slice.end; ++i) {
    result_.sources_.push_back(from_.source({i, i + 1}));
  }
}

void AlignedTextBuilder::put(std::string_view bytes, ByteRange source) {
  result_.text_.append(bytes);
  result_.sources_.insert(result_.sources_.end(), bytes.size(), source);
}

}  // namespace fathom::data
