#include "checkpoints/writeback.h"

#include <fcntl.h>
#include <unistd.h>

namespace fathom::checkpoints {
namespace {

/// Enough for the disk to work on while the next are copied into the kernel.
constexpr std::size_t kEnough = 32 << 20;

}  // namespace

Writeback::Writeback(const std::filesystem::path& file)
    : descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {}

Writeback::~Writeback() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Writeback::wrote(std::size_t bytes) noexcept {
  waiting_ += bytes;
  if (descriptor_ < 0 || waiting_ < kEnough) return;
  ::sync_file_range(descriptor_, 0, 0, SYNC_FILE_RANGE_WRITE);
  waiting_ = 0;
}

}  // namespace fathom::checkpoints
