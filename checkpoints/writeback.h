#pragma once

#include <cstddef>
#include <filesystem>

namespace fathom::checkpoints {

/// Lets the disk begin with a file that is still being written, so that the sync at its end, which
/// would otherwise wait for all of it, finds little left. Only a hint: what fails shows in the
/// sync.
class Writeback {
 public:
  /// The file must exist; without permission to open it nothing is ever begun.
  explicit Writeback(const std::filesystem::path& file);
  ~Writeback();
  Writeback(const Writeback&) = delete;
  Writeback& operator=(const Writeback&) = delete;

  /// So many more bytes were written.
  void wrote(std::size_t bytes) noexcept;

 private:
  int descriptor_;
  std::size_t waiting_ = 0;
};

}  // namespace fathom::checkpoints
