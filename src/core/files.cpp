#include "core/files.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "core/error.h"

namespace fathom::files {
namespace {

[[noreturn]] void fail_errno(const char* what, const std::filesystem::path& path) {
  const int code = errno;
  fail(ErrorKind::io, "cannot ", what, " '", path.string(), "': ", std::strerror(code), " (errno ",
       code, ")");
}

/// A descriptor that closes itself; close() is for the writer, who must see its error.
class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) fail_errno("open", path_);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  void sync() const {
    if (::fsync(fd_) != 0) fail_errno("sync", path_);
  }
  void close() {
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0) fail_errno("close", path_);
  }

 private:
  const std::filesystem::path& path_;
  int fd_;
};

}  // namespace

void ignore_file_size_signal() {
  struct sigaction current {};
  if (sigaction(SIGXFSZ, nullptr, &current) == 0 && current.sa_handler == SIG_DFL)
    std::signal(SIGXFSZ, SIG_IGN);
}

void sync_file(const std::filesystem::path& path) {
  Descriptor(path, O_RDONLY).sync();
}

void sync_directory(const std::filesystem::path& path) {
  const Descriptor directory(path, O_RDONLY | O_DIRECTORY);
  // Some network file systems refuse to sync a directory; their renames are synchronous anyway.
  if (::fsync(directory.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail_errno("sync directory", path);
}

void rename_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    fail_errno("rename", from.string() + "' to '" + to.string());
}

bool exchange_files(const std::filesystem::path& a, const std::filesystem::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
    fail_errno("swap", a.string() + "' and '" + b.string());
  return false;
}

std::string read_text(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY);
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno("read", path);
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

void write_fully(int fd, const void* data, std::size_t bytes, const std::filesystem::path& path) {
  const char* at = static_cast<const char*>(data);
  std::size_t left = bytes;
  while (left > 0) {
    const ssize_t n = ::write(fd, at, left);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(str("write ", bytes, " bytes to").c_str(), path);
    at += n;
    left -= static_cast<std::size_t>(n);
  }
}

void check_writable(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  require(std::filesystem::is_directory(folder, ignored), ErrorKind::io, path.string(),
          ": cannot be written, there is no folder ", folder.string());
  require(!std::filesystem::is_directory(path, ignored), ErrorKind::io, path.string(),
          ": cannot be written, it is a folder");
  const std::filesystem::path probe = path.string() + ".probe";
  const int fd = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) fail_errno("write", path);
  ::close(fd);
  ::unlink(probe.c_str());
}

void write_text_atomically(const std::filesystem::path& path, std::string_view text) {
  ignore_file_size_signal();
  const std::filesystem::path temporary = path.string() + ".tmp";
  Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  write_fully(file.get(), text.data(), text.size(), temporary);
  file.sync();
  file.close();
  rename_file(temporary, path);
  sync_directory(path.has_parent_path() ? path.parent_path() : ".");
}

}  // namespace fathom::files
