#pragma once

#include <filesystem>

#include "core/error.h"

namespace fathom::launch {

/// Throws Error(config) if a folder that a command is to write is there already: its files would be
/// mixed with the new ones, or lost.
inline void require_new_folder(const std::filesystem::path& folder) {
  require(!std::filesystem::exists(folder), ErrorKind::config, folder.string(),
          " exists already; name a new folder");
}

}  // namespace fathom::launch
