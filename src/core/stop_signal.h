#pragma once

namespace fathom {

/// Exit code of a command that stopped because it was asked to: a training run with all its work
/// saved, so that the same command goes on from there; every other one without a trace, so that it
/// starts anew. 75 is EX_TEMPFAIL of sysexits.h, "try again later";
/// no ErrorKind has it.
inline constexpr int kStoppedExitCode = 75;

/// From now on SIGUSR1 (which batch systems send ahead of a time limit) and SIGTERM only set a flag
/// that the run looks at where it can stop in good order; more signals change nothing. They are
/// blocked in the calling thread and in those that it starts, and taken by a thread of their own a
/// moment after they were sent: call it from the main thread, before others are started. Idempotent.
void catch_stop_signals();

/// The signal that asked this process to stop, or 0. Safe from any thread.
int stop_signal();

/// Thrown by work that ends early because it was asked to: no error, and no std::exception, so that
/// nothing that deals with failures takes it for one. Where several ranks work together it is
/// thrown on all of them, at the same place (comm/stop_vote.h).
struct Stopped {
  int signal = 0;
};

/// "SIGUSR1", "SIGTERM"
const char* stop_signal_name(int signal);

}  // namespace fathom
