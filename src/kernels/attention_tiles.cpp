#include "kernels/attention_tiles.h"

namespace fathom::kernels::tiles {
namespace {

using Eight = float __attribute__((vector_size(32)));

Eight load_eight(const float* from) {
  Eight v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// to[8, 8] = scale times the transpose of from[8, 8]: three rounds, each exchanging half of two
// vectors, of which the distance doubles.
void transpose_eight(const float* from, std::int64_t ld_from, float scale, float* to,
                     std::int64_t ld_to) {
  Eight r[8], s[8];
  for (int i = 0; i < 8; ++i) r[i] = scale * load_eight(from + i * ld_from);
  for (int i = 0; i < 8; i += 2) {
    s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int half = 0; half < 8; half += 4)
    for (int i = half; i < half + 2; ++i) {
      r[i] = __builtin_shufflevector(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + 2] = __builtin_shufflevector(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    s[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    s[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < 8; ++i) std::memcpy(to + i * ld_to, &s[i], sizeof s[i]);
}

}  // namespace

void transpose(std::int64_t count, std::int64_t depth, float scale, const float* rows, float* to) {
  const std::int64_t ld = round_up(depth, kLanes);
  for (std::int64_t i = 0; i < round_up(count, kLanes); i += 8)
    for (std::int64_t d = 0; d < ld; d += 8)
      transpose_eight(rows + i * ld + d, ld, scale, to + d * kTile + i, kTile);
}

}  // namespace fathom::kernels::tiles
