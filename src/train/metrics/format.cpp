#include "train/metrics/format.h"

#include <charconv>
#include <cmath>

namespace fathom::train {
namespace {

std::string print(double value, std::chars_format form, int decimals) {
  char buffer[512];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value, form, decimals);
  return error == std::errc() ? std::string(buffer, end) : "?";
}

std::string two_digits(std::int64_t value) {
  return (value < 10 ? "0" : "") + std::to_string(value);
}

}  // namespace

std::string format_fixed(double value, int decimals) {
  return print(value, std::chars_format::fixed, decimals);
}

std::string format_scientific(double value, int decimals) {
  return print(value, std::chars_format::scientific, decimals);
}

std::string format_count(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string format_bytes(std::int64_t bytes) {
  constexpr double mebibyte = 1024.0 * 1024.0;
  const double mib = static_cast<double>(bytes) / mebibyte;
  return mib < 1024.0 ? format_fixed(mib, 0) + " MiB" : format_fixed(mib / 1024.0, 1) + " GiB";
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "?";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t hours = whole / 3600;
  const std::int64_t minutes = whole / 60 % 60;
  const std::string tail = ":" + two_digits(whole % 60);
  return hours > 0 ? std::to_string(hours) + ":" + two_digits(minutes) + tail
                   : std::to_string(minutes) + tail;
}

}  // namespace fathom::train
