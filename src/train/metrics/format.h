#pragma once

#include <cstdint>
#include <string>

/// Numbers as people read them, independent of the locale.
namespace fathom::train {

/// "12,345"
std::string format_count(std::int64_t value);
/// "512 MiB", "3.1 GiB"
std::string format_bytes(std::int64_t bytes);
/// "0:07", "12:34", "3:02:01"; "?" when it is not a finite positive number.
std::string format_duration(double seconds);
/// As printf would.
std::string format_fixed(double value, int decimals);
std::string format_scientific(double value, int decimals);

}  // namespace fathom::train
