#pragma once

#include <cstdint>

// Counter-based random numbers (Philox4x32-10, Salmon et al., SC 2011): a number is a pure function
// of its key and counter, so that a mask or a weight is the same on every grid and after a resume.

#if defined(__CUDACC__)
#define FATHOM_HOST_DEVICE __host__ __device__
#else
#define FATHOM_HOST_DEVICE
#endif

namespace fathom {

struct Philox {
  std::uint32_t v[4];
};

/// Four independent 32-bit words for one (key, counter).
FATHOM_HOST_DEVICE inline Philox philox(std::uint32_t key0, std::uint32_t key1, std::uint32_t c0,
                                        std::uint32_t c1, std::uint32_t c2, std::uint32_t c3) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ key0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ key1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Uniform in [0, 1) from the upper 24 bits.
FATHOM_HOST_DEVICE inline float uniform01(std::uint32_t word) {
  return static_cast<float>(word >> 8) * (1.0f / 16777216.0f);
}

}  // namespace fathom
