#pragma once

#include <string>
#include <vector>

namespace fathom {

/// Ascending numbers for people: "0-3,8".
std::string number_ranges(const std::vector<int>& numbers);

}  // namespace fathom
