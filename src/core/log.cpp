#include "core/log.h"

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sys/ioctl.h>
#include <unistd.h>

namespace fathom {
namespace {

constexpr const char* erase_line = "\r\x1b[K";

}  // namespace

void Logger::set_rank(int rank, int ranks) {
  const std::lock_guard lock(mutex_);
  rank_ = rank;
  ranks_ = ranks;
}

void Logger::set_quiet(bool quiet) {
  const std::lock_guard lock(mutex_);
  quiet_ = quiet;
}

void Logger::info(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (rank_ == 0 && !quiet_) write_line(text);
}

void Logger::warn(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const std::string prefix = ranks_ > 1 ? "rank " + std::to_string(rank_) + ": " : "";
  write_line(prefix + "warning: " + text);
}

void Logger::status(const std::string& text) {
  const std::lock_guard lock(mutex_);
  status_ = text;
  paint();
}

void Logger::end_status() {
  const std::lock_guard lock(mutex_);
  if (!status_.empty()) *out_ << "\n" << std::flush;
  status_.clear();
}

void Logger::write_line(const std::string& text) {
  if (!status_.empty()) *out_ << erase_line;
  // One write for a line, so that the lines of several ranks do not mix within it.
  *out_ << text + "\n" << std::flush;
  if (!status_.empty()) paint();
}

void Logger::paint() {
  // A full last column would wrap, and the next repaint would leave the first half behind.
  const auto width = static_cast<std::size_t>(terminal_width() - 1);
  *out_ << erase_line + status_.substr(0, width) << std::flush;
}

Logger& logger() {
  static Logger instance(std::cerr);
  return instance;
}

int terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) return size.ws_col;
  return 80;
}

bool on_terminal() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && kind != nullptr && std::strcmp(kind, "dumb") != 0;
}

}  // namespace fathom
