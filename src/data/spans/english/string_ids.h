#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace fathom::data::spans::english {

/// Lets an unordered_map keyed by std::string be asked with a string_view.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
template <typename Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

/// spaCy's number of a string: 0 for the empty one, a small number for the few hundred that are
/// built in, else 64 bits of MurmurHash.
class StringIds {
 public:
  explicit StringIds(TextMap<std::uint64_t> symbols) : symbols_(std::move(symbols)) {}

  std::uint64_t operator()(std::string_view text) const;

 private:
  TextMap<std::uint64_t> symbols_;
};

/// MurmurHash64A over bytes (Austin Appleby, public domain algorithm), little-endian.
std::uint64_t murmur_hash_64(std::string_view bytes, std::uint64_t seed);

/// MurmurHash3_x64_128 of the 8 bytes of `key`, as four words.
struct Words4 {
  std::uint32_t word[4];
};
Words4 murmur3_128(std::uint64_t key, std::uint32_t seed);

}  // namespace fathom::data::spans::english
