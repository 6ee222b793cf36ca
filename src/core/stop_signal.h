#pragma once

namespace fathom {

/// Exit code of a run that stopped because it was asked to, with all its work saved: the same
/// command, started again, goes on from there. 75 is EX_TEMPFAIL of sysexits.h, "try again later";
/// no ErrorKind has it.
inline constexpr int kStoppedExitCode = 75;

/// From now on SIGUSR1 (which batch systems send ahead of a time limit) and SIGTERM only set a flag
/// that the run looks at where it can stop in good order. Interrupted system calls are restarted,
/// and more signals change nothing. Idempotent.
void catch_stop_signals();

/// The signal that asked this process to stop, or 0. Safe from any thread.
int stop_signal();

/// "SIGUSR1", "SIGTERM"
const char* stop_signal_name(int signal);

}  // namespace fathom
