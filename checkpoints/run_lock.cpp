#include "checkpoints/run_lock.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sstream>
#include <sys/file.h>
#include <unistd.h>

#include "core/error.h"
#include "core/files.h"

namespace fathom::checkpoints {
namespace {

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

/// "host=node07 pid=4711 since=2026-03-01T12:00:00Z"
std::string describe_self() {
  char when[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  return str("host=", host_name(), " pid=", ::getpid(), " since=", when);
}

/// The value of one key of such a line, or nothing.
std::string field(const std::string& line, const std::string& key) {
  std::istringstream words(line);
  for (std::string word; words >> word;)
    if (word.starts_with(key + "=")) return word.substr(key.size() + 1);
  return {};
}

/// Only asked where flock does not work. A holder on another host counts as alive.
bool holder_may_be_alive(const std::string& holder) {
  if (holder.empty()) return false;
  if (field(holder, "host") != host_name()) return true;
  const int pid = std::atoi(field(holder, "pid").c_str());
  return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM);
}

enum class LockResult { taken, held, unsupported };

LockResult try_flock(int fd, const std::filesystem::path& path) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return LockResult::held;
    if (errno == ENOLCK || errno == ENOSYS || errno == ENOTSUP || errno == EINVAL)
      return LockResult::unsupported;
    fail(ErrorKind::io, "cannot lock '", path.string(), "': ", std::strerror(errno));
  }
  return LockResult::taken;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run_folder) : path_(run_folder / "LOCK") {
  std::error_code problem;
  std::filesystem::create_directories(run_folder, problem);
  require(!problem, ErrorKind::io, "cannot make run folder '", run_folder.string(),
          "': ", problem.message());
  const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  require(fd >= 0, ErrorKind::io, "cannot open '", path_.string(), "': ", std::strerror(errno));
  try {
    previous_ = files::read_text(path_);
    while (!previous_.empty() && previous_.back() == '\n') previous_.pop_back();
    const LockResult result = try_flock(fd, path_);
    const bool held = result == LockResult::held ||
                      (result == LockResult::unsupported && holder_may_be_alive(previous_));
    require(!held, ErrorKind::io, "run folder '", run_folder.string(),
            "' is in use by another run: ", previous_.empty() ? "holder unknown" : previous_,
            result == LockResult::unsupported
                ? "; this file system has no locks: if that run has ended, remove its file LOCK"
                : "; stop it, or choose another folder");
    require(::ftruncate(fd, 0) == 0, ErrorKind::io, "cannot rewrite '", path_.string(),
            "': ", std::strerror(errno));
    const std::string self = describe_self() + "\n";
    files::write_fully(fd, self.data(), self.size(), path_);
  } catch (...) {
    ::close(fd);
    throw;
  }
  fd_ = fd;
}

RunLock::~RunLock() {
  // The file stays: removing it could take away the lock of somebody who opened it meanwhile.
  if (::ftruncate(fd_, 0) != 0) std::perror("release of the run's lock");
  ::close(fd_);
}

}  // namespace fathom::checkpoints
