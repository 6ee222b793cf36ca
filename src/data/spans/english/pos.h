#pragma once

#include <cstdint>
#include <string_view>

namespace fathom::data::spans::english {

/// Universal parts of speech, and `space` for white space.
enum class Pos : std::uint8_t {
  none,
  adj,
  adp,
  adv,
  aux,
  cconj,
  det,
  intj,
  noun,
  num,
  part,
  pron,
  propn,
  punct,
  sconj,
  space,
  sym,
  verb,
  x
};

/// "ADJ", ...; "" for none.
std::string_view to_string(Pos pos);

/// Throws Error(data) for a name that is none of these.
Pos pos_of(std::string_view name);

}  // namespace fathom::data::spans::english
