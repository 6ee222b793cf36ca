#pragma once

#include <functional>
#include <optional>

#include "comm/communicator.h"
#include "tests/support/temporary_directory.h"

namespace fathom::testing {

/// One temporary directory for all ranks, filled by rank 0. Making it is collective; all ranks must
/// have left it when rank 0's goes.
class SharedDirectory {
 public:
  /// Returns when `fill(path)` has returned on rank 0.
  SharedDirectory(comm::Communicator& world,
                  const std::function<void(const std::filesystem::path&)>& fill) {
    if (world.rank() == 0) {
      own_.emplace();
      fill(own_->path());
    }
    path_ = world.broadcast_text(own_ ? own_->path().string() : "", 0);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::optional<TemporaryDirectory> own_;
  std::filesystem::path path_;
};

}  // namespace fathom::testing
