#include "tests/launch/program.h"

#include <array>
#include <cstdio>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/wait.h>

#include "core/error.h"

namespace fathom::launch {
Outcome shell(const std::string& command, int seconds) {
  const std::string script =
      str("export FATHOM=", FATHOM_PROGRAM, " OMP_NUM_THREADS=1 MPIRUN='", FATHOM_MPIRUN,
          " --allow-run-as-root --oversubscribe --bind-to none -np 2'; exec 2>&1\n", command);
  const std::string limited = str("timeout ", seconds, " bash -c \"$FATHOM_TEST_SCRIPT\"");
  ::setenv("FATHOM_TEST_SCRIPT", script.c_str(), 1);
  FILE* pipe = ::popen(limited.c_str(), "r");
  FATHOM_CHECK(pipe != nullptr, "popen");
  Outcome outcome;
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.text.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::istringstream lines(outcome.text);
  for (std::string line; std::getline(lines, line);)
    outcome.messages += line.starts_with("fathom: ");
  return outcome;
}

}  // namespace fathom::launch
