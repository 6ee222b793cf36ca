#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::data::spans::english {

/// Dependency labels by number. A label "x||y" of a pseudo-projective arc stands for "x below a
/// head that is labelled y".
class Labels {
 public:
  /// Number of the label, which is added if it is new, with its parts.
  std::uint16_t add(std::string_view name);
  /// Number of a label that must exist, or 0 (no label) if it does not.
  std::uint16_t find(std::string_view name) const;

  std::string_view name(std::uint16_t label) const { return entries_[label].name; }
  bool lifted(std::uint16_t label) const { return entries_[label].head != 0; }
  std::uint16_t base(std::uint16_t label) const { return entries_[label].base; }
  std::uint16_t head(std::uint16_t label) const { return entries_[label].head; }
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string name;
    std::uint16_t base = 0;
    std::uint16_t head = 0;
  };
  std::vector<Entry> entries_{{}};
};

}  // namespace fathom::data::spans::english
