#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace fathom::data {

/// A compiled PCRE2 pattern over valid UTF-8, with Unicode classes; `$` is the very end of the
/// text. The one place that calls PCRE2. Immutable: any number of threads may match at once.
class Pcre {
 public:
  /// Throws Error(data), naming `where`, for a pattern that cannot be compiled.
  Pcre(const std::string& pattern, const std::string& where);

  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  /// The first match that is not empty and begins at or after byte `from`; what lies before `from`
  /// can be seen by a lookbehind. Takes the text as checked.
  std::optional<Match> find(std::string_view text, std::size_t from = 0) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace fathom::data
