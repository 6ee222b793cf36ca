#pragma once

#include <string>
#include <string_view>

namespace fathom {

/// Parameters of a training method that are no part of the published model are named
/// "method.<method>.<...>": checkpoints keep them, exports leave them out.
inline constexpr std::string_view kMethodPrefix = "method.";

inline bool is_method_parameter(const std::string& name) {
  return name.compare(0, kMethodPrefix.size(), kMethodPrefix) == 0;
}

}  // namespace fathom
