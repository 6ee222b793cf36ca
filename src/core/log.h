#pragma once

#include <iosfwd>
#include <mutex>
#include <string>

#include "core/error.h"

namespace fathom {

/// Lines for people, on a stream of this rank. A status line is one that is painted over in place
/// on a terminal; log lines appear above it. Every call is safe from any thread and none throws.
class Logger {
 public:
  /// The stream must outlive the logger.
  explicit Logger(std::ostream& out) : out_(&out) {}

  /// Called once the ranks are known; before that a logger speaks as the only rank.
  void set_rank(int rank, int ranks);
  /// Drops info lines; warnings stay.
  void set_quiet(bool quiet);

  /// Written by rank 0 alone.
  void info(const std::string& text);
  /// Written by any rank, with "rank r:" in front when there are several.
  void warn(const std::string& text);

  /// Paints the status line, cut to the terminal's width, in the place of the last one.
  void status(const std::string& text);
  /// Leaves the last status line standing and starts a new line.
  void end_status();

 private:
  void write_line(const std::string& text);
  void paint();

  std::mutex mutex_;
  std::ostream* out_;
  std::string status_;
  int rank_ = 0;
  int ranks_ = 1;
  bool quiet_ = false;
};

/// The process's logger, on standard error.
Logger& logger();

template <typename... Parts>
void log_info(const Parts&... parts) {
  logger().info(str(parts...));
}

template <typename... Parts>
void log_warn(const Parts&... parts) {
  logger().warn(str(parts...));
}

/// Columns of the terminal on standard error; 80 when it does not say.
int terminal_width();
/// True when standard error is a terminal that can paint over a line.
bool on_terminal();

}  // namespace fathom
