#include <array>
#include <iostream>
#include <string_view>

#include "comm/launch_environment.h"
#include "launch/backend_choice.h"
#include "launch/commands/commands.h"
#include "launch/options/commands.h"
#include "launch/session.h"

namespace {

using fathom::launch::Arguments;

struct Entry {
  std::string_view name;
  int (*run)(const Arguments&);
};

constexpr std::array kEntries = {
    Entry{"train", fathom::launch::train_command},
    Entry{"generate", fathom::launch::generate_command},
    Entry{"evaluate", fathom::launch::evaluate_command},
    Entry{"pairs", fathom::launch::pairs_command},
    Entry{"probe", fathom::launch::probe_command},
    Entry{"tokenize", fathom::launch::tokenize_command},
    Entry{"spans", fathom::launch::spans_command},
    Entry{"import", fathom::launch::import_command},
    Entry{"convert", fathom::launch::convert_command},
    Entry{"checkpoint", fathom::launch::checkpoint_command},
    Entry{"hang-report", fathom::launch::hang_report_command},
    Entry{"diagnose", fathom::launch::diagnose_command},
};

int dispatch(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "--help";
  if (word == "--help" || word == "-h" || word == "help") {
    std::cout << fathom::options::overview();
    return argc > 1 ? 0 : 2;
  }
  if (word == "--version") {
    std::cout << "fathom " << FATHOM_VERSION << "\n" << fathom::launch::backends_text();
    return 0;
  }
  for (const Entry& entry : kEntries)
    if (entry.name == word) return entry.run(Arguments(argv + 2, argv + argc));
  fathom::options::fail_unknown_command(word);
}

}  // namespace

int main(int argc, char** argv) {
  // The kernels need AVX2 and FMA; this file is built for any x86-64, so that it can say so.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    std::cerr << "fathom: this CPU lacks AVX2 or FMA, which the kernels need\n";
    return 2;
  }
  try {
    return dispatch(argc, argv);
  } catch (...) {
    const fathom::launch::Failure failure = fathom::launch::current_failure();
    fathom::launch::report(fathom::comm::launched_rank(), failure.message);
    return exit_code(failure.kind);
  }
}
