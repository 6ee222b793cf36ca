#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace fathom::h5 {
class File;
}

namespace fathom::data {

/// A one-dimensional int32 dataset, mapped read-only where it lies in one piece on disk (as our own
/// writer lays it), else read into memory (a file that somebody compressed). Movable.
class MappedIds {
 public:
  MappedIds() = default;
  /// Throws Error(data) for a dataset that is missing or has another type or rank, Error(io) if the
  /// file cannot be mapped.
  MappedIds(const h5::File& file, const std::string& dataset);
  MappedIds(MappedIds&& other) noexcept;
  MappedIds& operator=(MappedIds&& other) noexcept;
  ~MappedIds();

  std::span<const std::int32_t> ids() const { return ids_; }

 private:
  void map(const std::filesystem::path& path, std::uint64_t offset, std::size_t count);

  std::span<const std::int32_t> ids_;
  std::vector<std::int32_t> owned_;
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
};

}  // namespace fathom::data
