#include "data/spans/english/labels.h"

namespace fathom::data::spans::english {

std::uint16_t Labels::find(std::string_view name) const {
  for (std::size_t i = 1; i < entries_.size(); ++i)
    if (entries_[i].name == name) return static_cast<std::uint16_t>(i);
  return 0;
}

std::uint16_t Labels::add(std::string_view name) {
  if (name.empty()) return 0;
  if (const std::uint16_t known = find(name)) return known;
  constexpr std::string_view kDelimiter = "||";
  const std::size_t cut = name.find(kDelimiter);
  Entry entry{std::string(name), 0, 0};
  if (cut != std::string_view::npos) {
    entry.base = add(name.substr(0, cut));
    entry.head = add(name.substr(cut + kDelimiter.size()));
  }
  const auto number = static_cast<std::uint16_t>(entries_.size());
  if (cut == std::string_view::npos) entry.base = number;
  entries_.push_back(std::move(entry));
  return number;
}

}  // namespace fathom::data::spans::english
