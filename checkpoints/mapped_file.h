#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace fathom::checkpoints {

/// A file's bytes, mapped read-only; moving keeps the address. Throws Error(io) with path and
/// errno.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace fathom::checkpoints
