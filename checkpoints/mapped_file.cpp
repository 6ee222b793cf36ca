#include "checkpoints/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/error.h"

namespace fathom::checkpoints {

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(fd >= 0, ErrorKind::io, "cannot open '", path.string(), "': ", std::strerror(errno));
  struct stat status {};
  void* address = nullptr;
  bool good = ::fstat(fd, &status) == 0;
  if (good && !S_ISREG(status.st_mode)) {
    good = false;
    errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (good && size > 0) {
    address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    good = address != MAP_FAILED;
  }
  const int reason = errno;
  ::close(fd);
  require(good, ErrorKind::io, "cannot map '", path.string(), "': ", std::strerror(reason));
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace fathom::checkpoints
