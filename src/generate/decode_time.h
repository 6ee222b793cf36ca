#pragma once

#include <cstdint>

namespace fathom::generate {

/// Time of decoding alone: of the rounds over all groups of sequences in which no step took in a
/// prompt.
struct DecodeTime {
  double seconds = 0;
  std::int64_t tokens = 0;  ///< that these rounds went on with

  DecodeTime& operator+=(const DecodeTime& other) {
    seconds += other.seconds;
    tokens += other.tokens;
    return *this;
  }
  /// Tokens a second; 0 where there was no such round.
  double rate() const { return tokens > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

}  // namespace fathom::generate
