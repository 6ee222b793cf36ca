#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>

#include "comm/communicator.h"
#include "tests/support/temporary_directory.h"

namespace fathom::testing {

/// One temporary directory for all ranks, filled by rank 0. Making it is collective; all ranks must
/// have left it when rank 0's goes.
class SharedDirectory {
 public:
  /// Returns when `fill(path)` has returned on rank 0; throws on every rank where it throws.
  SharedDirectory(comm::Communicator& world,
                  const std::function<void(const std::filesystem::path&)>& fill) {
    std::exception_ptr fault;
    if (world.rank() == 0) {
      own_.emplace();
      try {
        fill(own_->path());
      } catch (...) {
        fault = std::current_exception();
      }
    }
    const bool filled = world.all_agree(!fault);
    if (fault) std::rethrow_exception(fault);
    if (!filled) throw std::runtime_error("rank 0 could not make the files of these tests");
    path_ = world.broadcast_text(own_ ? own_->path().string() : "", 0);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::optional<TemporaryDirectory> own_;
  std::filesystem::path path_;
};

}  // namespace fathom::testing
