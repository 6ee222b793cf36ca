#pragma once

#include <exception>
#include <iostream>

#include "core/error.h"

namespace fathom::bench {

/// What every benchmark's main() returns: 0 after run(*parse(argc, argv)), or after parse() has
/// shown the help and given nothing; with an error, one line that names the program, and the exit
/// code of its kind.
template <typename Parse, typename Run>
int run_program(const char* name, int argc, char** argv, Parse parse, Run run) {
  try {
    if (const auto options = parse(argc, argv)) run(*options);
    return 0;
  } catch (const Error& error) {
    std::cerr << name << ": " << error.what() << "\n";
    return exit_code(error.kind());
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << "\n";
    return 2;
  }
}

}  // namespace fathom::bench
