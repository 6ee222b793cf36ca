#pragma once

#include <cmath>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/support/test_data.h"

/// What tests against golden files share (tests/data/golden): where they lie, and how values are
/// compared.
namespace fathom::test {

inline std::string golden(const std::string& path) {
  return test_data("golden/" + path);
}

inline double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

/// The norm of ours - theirs; a failure if they are of unlike size.
inline double distance(std::vector<float> ours, const std::vector<float>& theirs) {
  EXPECT_EQ(ours.size(), theirs.size());
  if (ours.size() != theirs.size()) return INFINITY;
  for (std::size_t i = 0; i < ours.size(); ++i) ours[i] -= theirs[i];
  return norm(ours);
}

/// How far an output is off, relative where a value is beyond 10: f32 rounding grows with it.
inline double output_difference(double ours, double theirs) {
  return std::abs(ours - theirs) / std::max(1.0, std::abs(theirs) / 10);
}

/// The worst of these over rows of `width` values whose mask is not 0; a failure if they are of
/// unlike size.
inline double worst_output_difference(const std::vector<float>& ours,
                                      const std::vector<float>& theirs,
                                      const std::vector<std::int32_t>& mask, std::int64_t width) {
  EXPECT_EQ(ours.size(), theirs.size());
  if (ours.size() != theirs.size()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (mask[i / static_cast<std::size_t>(width)] != 0)
      worst = std::max(worst, output_difference(ours[i], theirs[i]));
  return worst;
}

}  // namespace fathom::test
