#pragma once

#include <gtest/gtest.h>
#include <string>

/// Runs the built `fathom` as a user does.
namespace fathom::launch {

struct Outcome {
  int code = 0;      ///< of the process, or of mpirun; 124 after the time limit
  std::string text;  ///< standard output and standard error
  int messages = 0;  ///< lines in which the program reports an error: "fathom: ..."

  bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
};

/// A shell command, ended after so many seconds. The variable FATHOM in it names the program, and
/// MPIRUN the words that start two ranks.
Outcome shell(const std::string& command, int seconds = 20);

/// Expects this exit code and one message with all parts in it.
template <typename... Parts>
void expect_refused(const Outcome& outcome, int code, const Parts&... parts) {
  EXPECT_EQ(outcome.code, code) << outcome.text;
  EXPECT_EQ(outcome.messages, 1) << outcome.text;
  for (const std::string& part : {std::string(parts)...})
    EXPECT_TRUE(outcome.has(part)) << "'" << part << "' is not in: " << outcome.text;
}

}  // namespace fathom::launch
