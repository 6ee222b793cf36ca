#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/aligned_text.h"
#include "data/tokenizers/pcre.h"

namespace fathom::data {

/// A compiled regular expression over valid UTF-8 with Unicode classes, as tokenizer files write
/// them (Oniguruma's syntax; `\s` is the property White_Space). Safe from several threads.
class Regex {
 public:
  /// Throws Error(data), naming `where`, for a pattern that cannot be compiled or that has
  /// a construct with another meaning in PCRE2.
  Regex(const std::string& pattern, const std::string& where);

  /// The pattern as it was given.
  const std::string& pattern() const { return pattern_; }

  /// Cuts `text` into the matches and the stretches between them and appends the pieces, moved by
  /// `offset`, to `pieces`. Empty pieces are left out.
  void isolate(std::string_view text, std::uint32_t offset, std::vector<Slice>& pieces) const;

 private:
  std::string pattern_;
  Pcre code_;
};

}  // namespace fathom::data
