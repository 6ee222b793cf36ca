#include "core/number_ranges.h"

#include "core/error.h"

namespace fathom {

std::string number_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    text += str(text.empty() ? "" : ",", numbers[i]);
    if (end > i) text += str("-", numbers[end]);
    i = end + 1;
  }
  return text;
}

}  // namespace fathom
