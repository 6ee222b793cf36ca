#pragma once

#include <cstdlib>
#include <string>

namespace fathom::test {

/// A file or folder of tests/data: that of the source tree, or of the folder that FATHOM_TEST_DATA
/// names in the environment of a test that runs on another machine than it was built on.
inline std::string test_data(const std::string& path) {
  const char* moved = std::getenv("FATHOM_TEST_DATA");
  return std::string(moved && *moved ? moved : FATHOM_TEST_DATA) + "/" + path;
}

}  // namespace fathom::test
