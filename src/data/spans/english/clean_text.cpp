#include "data/spans/english/clean_text.h"

#include <numeric>

#include "data/tokenizers/unicode.h"

namespace fathom::data::spans::english {

CleanText::CleanText(std::string_view original) : original_(original) {
  auto invalid = find_invalid_utf8(original);
  if (!invalid) return;
  const auto keep = [&](std::size_t begin, std::size_t end) {
    changed_.append(original, begin, end - begin);
    const std::size_t first = origin_.size();
    origin_.resize(changed_.size());
    std::iota(origin_.begin() + static_cast<std::ptrdiff_t>(first), origin_.end(),
              static_cast<std::uint32_t>(begin));
  };
  std::size_t at = 0;
  while (invalid) {
    const std::size_t bad = at + *invalid;
    keep(at, bad);
    changed_.append("\uFFFD");
    origin_.resize(changed_.size(), static_cast<std::uint32_t>(bad));
    at = bad + invalid_utf8_length(original, bad);
    invalid = find_invalid_utf8(original.substr(at));
  }
  keep(at, original.size());
  origin_.push_back(static_cast<std::uint32_t>(original.size()));
}

}  // namespace fathom::data::spans::english
