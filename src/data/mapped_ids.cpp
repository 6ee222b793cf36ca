#include "data/mapped_ids.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "core/error.h"
#include "core/h5.h"

namespace fathom::data {

MappedIds::MappedIds(const h5::File& file, const std::string& dataset) {
  const h5::DatasetInfo info = file.info(dataset);
  require(info.type == h5::Type::i32 && info.shape.size() == 1, ErrorKind::data,
          file.path().string(), ": dataset '", dataset, "' is ", h5::to_string(info.type), " ",
          h5::to_string(info.shape), "; a list of i32 expected");
  const auto count = static_cast<std::size_t>(info.shape[0]);
  const auto offset = file.contiguous_offset(dataset);
  if (offset && count > 0 && *offset % alignof(std::int32_t) == 0) {
    map(file.path(), *offset, count);
  } else {
    owned_ = file.read<std::int32_t>(dataset);
    ids_ = owned_;
  }
}

void MappedIds::map(const std::filesystem::path& path, std::uint64_t offset, std::size_t count) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t lead = offset % page;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(descriptor >= 0, ErrorKind::io, path.string(), ": ", std::strerror(errno));
  mapped_bytes_ = static_cast<std::size_t>(lead) + count * sizeof(std::int32_t);
  void* address = ::mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, descriptor,
                         static_cast<off_t>(offset - lead));
  const int mmap_errno = errno;
  ::close(descriptor);
  require(address != MAP_FAILED, ErrorKind::io, path.string(), ": cannot map ", mapped_bytes_,
          " bytes: ", std::strerror(mmap_errno));
  mapping_ = address;
  ids_ = {reinterpret_cast<const std::int32_t*>(static_cast<const std::byte*>(address) + lead),
          count};
}

MappedIds::MappedIds(MappedIds&& other) noexcept {
  *this = std::move(other);
}

MappedIds& MappedIds::operator=(MappedIds&& other) noexcept {
  // A moved vector keeps its buffer, so the span stays valid in both cases.
  std::swap(ids_, other.ids_);
  std::swap(owned_, other.owned_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  return *this;
}

MappedIds::~MappedIds() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_bytes_);
}

}  // namespace fathom::data
