#include "data/spans/english/string_ids.h"

#include <bit>
#include <cstring>

namespace fathom::data::spans::english {
namespace {

static_assert(std::endian::native == std::endian::little, "hashes are read as little-endian words");

/// The last step of MurmurHash3: every bit of the input reaches every bit of the output.
std::uint64_t avalanche(std::uint64_t k) {
  k = (k ^ (k >> 33)) * 0xff51afd7ed558ccdULL;
  k = (k ^ (k >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return k ^ (k >> 33);
}

}  // namespace

std::uint64_t StringIds::operator()(std::string_view text) const {
  if (text.empty()) return 0;
  const auto symbol = symbols_.find(text);
  return symbol != symbols_.end() ? symbol->second : murmur_hash_64(text, 1);
}

std::uint64_t murmur_hash_64(std::string_view bytes, std::uint64_t seed) {
  constexpr std::uint64_t m = 0xc6a4a7935bd1e995ULL;
  constexpr int shift = 47;
  std::uint64_t hash = seed ^ (bytes.size() * m);
  const std::size_t tail = bytes.size() % 8;
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t k;
    std::memcpy(&k, bytes.data() + at, 8);
    k *= m;
    k ^= k >> shift;
    hash = (hash ^ (k * m)) * m;
  }
  if (tail != 0) {
    std::uint64_t k = 0;
    std::memcpy(&k, bytes.data() + bytes.size() - tail, tail);
    hash = (hash ^ k) * m;
  }
  hash = (hash ^ (hash >> shift)) * m;
  return hash ^ (hash >> shift);
}

Words4 murmur3_128(std::uint64_t key, std::uint32_t seed) {
  // Eight bytes are a tail without any whole block: only the first lane sees them.
  std::uint64_t h1 = seed, h2 = seed;
  h1 ^= std::rotl(key * 0x87c37b91114253d5ULL, 31) * 0x4cf5ad432745937fULL;
  h1 ^= 8;
  h2 ^= 8;
  h1 += h2;
  h2 += h1;
  h1 = avalanche(h1);
  h2 = avalanche(h2);
  h1 += h2;
  h2 += h1;
  Words4 out;
  std::memcpy(out.word, &h1, 8);
  std::memcpy(out.word + 2, &h2, 8);
  return out;
}

}  // namespace fathom::data::spans::english
