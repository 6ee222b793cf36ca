#pragma once

#include <functional>
#include <gtest/gtest.h>
#include <string>

#include "core/error.h"

namespace fathom::testing {

/// Expects `action` to throw an Error of this kind whose text has every given part.
template <typename... Parts>
void expect_error(ErrorKind kind, const std::function<void()>& action, const Parts&... parts) {
  try {
    action();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(to_string(error.kind()), std::string(to_string(kind))) << text;
    for (const std::string& part : {std::string(parts)...})
      EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  }
}

}  // namespace fathom::testing
