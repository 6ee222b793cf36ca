#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/spans/spans.h"

namespace fathom::data::spans::english {

/// A text as valid UTF-8: every maximal invalid sequence is replaced by one U+FFFD. Remembers where
/// its bytes come from. Refers to the text it is made of.
class CleanText {
 public:
  explicit CleanText(std::string_view original);

  std::string_view text() const { return origin_.empty() ? original_ : std::string_view(changed_); }

  /// Bytes of the original that a range of whole characters stands for.
  ByteRange original(ByteRange range) const {
    return origin_.empty() ? range : ByteRange{origin_[range.begin], origin_[range.end]};
  }

 private:
  std::string_view original_;
  std::string changed_;
  std::vector<std::uint32_t> origin_;  // of each byte, and of the end; empty if nothing changed
};

}  // namespace fathom::data::spans::english
