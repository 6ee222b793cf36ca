#include "data/spans/english/pos.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace fathom::data::spans::english {
namespace {

constexpr std::array<std::string_view, 19> kNames = {
    "",     "ADJ",  "ADP",   "ADV",   "AUX",   "CCONJ", "DET", "INTJ", "NOUN", "NUM",
    "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SPACE", "SYM", "VERB", "X"};

}  // namespace

std::string_view to_string(Pos pos) {
  return kNames[static_cast<std::size_t>(pos)];
}

Pos pos_of(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  require(found != kNames.end(), ErrorKind::data, "'", name, "' is no universal part of speech");
  return static_cast<Pos>(found - kNames.begin());
}

}  // namespace fathom::data::spans::english
