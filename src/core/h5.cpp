#include "core/h5.h"

#include <algorithm>
#include <utility>

#include "core/files.h"
#include "core/h5_support.h"

namespace fathom::h5 {
namespace {

using detail::check;
using detail::Handle;
using detail::Session;

/// File access without locks, which some cluster file systems refuse.
Handle access_list(const std::filesystem::path& path) {
  Handle list(check(H5Pcreate(H5P_FILE_ACCESS), "prepare access to", path), H5Pclose);
  check(H5Pset_file_locking(list.get(), false, true), "switch file locks off for", path);
  return list;
}

/// Link creation that makes missing parent groups.
Handle link_list(const std::filesystem::path& path, const std::string& name) {
  Handle list(check(H5Pcreate(H5P_LINK_CREATE), "prepare", path, name), H5Pclose);
  check(H5Pset_create_intermediate_group(list.get(), 1), "prepare", path, name);
  return list;
}

void set_compressed(hid_t layout, const Shape& shape, const std::filesystem::path& path,
                    const std::string& name) {
  constexpr hsize_t chunk_rows = 8192;
  constexpr unsigned deflate_level = 4;
  std::vector<hsize_t> chunk(shape.begin(), shape.end());
  chunk[0] = std::min(chunk[0], chunk_rows);
  check(H5Pset_chunk(layout, static_cast<int>(chunk.size()), chunk.data()), "cut chunks for", path,
        name);
  check(H5Pset_shuffle(layout), "shuffle the bytes of", path, name);
  check(H5Pset_deflate(layout, deflate_level), "compress", path, name);
}

/// A rectangle of a dataset, ready for H5Dread and H5Dwrite.
struct Selection {
  Handle dataset;
  Handle file_space;
  Handle memory_space;
  Handle type;
};

Selection select(hid_t file, const std::filesystem::path& path, const std::string& name, Type type,
                 const Shape& offset, const Shape& extent) {
  Handle dataset = detail::open_dataset(file, path, name);
  const Handle stored(check(H5Dget_type(dataset.get()), "read the type of", path, name), H5Tclose);
  const Type stored_type = detail::classify(stored.get(), path, name);
  require(stored_type == type, ErrorKind::data, "dataset '", name, "' in file '", path.string(),
          "' holds ", to_string(stored_type), ", not ", to_string(type));
  const Shape shape = detail::shape_of(dataset.get(), path, name);
  bool fits = shape.size() == offset.size() && shape.size() == extent.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i)
    fits = offset[i] <= shape[i] && extent[i] <= shape[i] - offset[i];
  require(fits, ErrorKind::data, "dataset '", name, "' in file '", path.string(), "' of shape ",
          to_string(shape), " has no part of extent ", to_string(extent), " at ",
          to_string(offset));

  Handle file_space = detail::make_space(shape, path, name);
  if (!shape.empty()) {
    const std::vector<hsize_t> start(offset.begin(), offset.end());
    const std::vector<hsize_t> size(extent.begin(), extent.end());
    // A hyperslab of nothing is an error to the library, an empty selection is not.
    const herr_t selected = count(extent) == 0
                                ? H5Sselect_none(file_space.get())
                                : H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET,
                                                      start.data(), nullptr, size.data(), nullptr);
    check(selected, "select a part of", path, name);
  }
  return {std::move(dataset), std::move(file_space), detail::make_space(extent, path, name),
          detail::make_type(type)};
}

}  // namespace

File File::create(const std::filesystem::path& path) {
  const Session session;
  const Handle access = access_list(path);
  const hid_t id =
      check(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), "create", path);
  return File(path, id, true);
}

File File::open(const std::filesystem::path& path) {
  const Session session;
  const Handle access = access_list(path);
  return File(path, check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), "open", path),
              false);
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      id_(std::exchange(other.id_, -1)),
      writable_(other.writable_) {}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    abandon();
    path_ = std::move(other.path_);
    id_ = std::exchange(other.id_, -1);
    writable_ = other.writable_;
  }
  return *this;
}

File::~File() {
  abandon();
}

void File::abandon() noexcept {
  if (id_ < 0) return;
  const Session session;
  H5Fclose(std::exchange(id_, -1));
  H5Eclear2(H5E_DEFAULT);
}

void File::close() {
  {
    const Session session;
    if (id_ < 0) return;
    const hid_t id = std::exchange(id_, -1);
    const bool flushed = !writable_ || H5Fflush(id, H5F_SCOPE_LOCAL) >= 0;
    const std::string reason = flushed ? "" : detail::take_error_stack();
    const bool closed = H5Fclose(id) >= 0;
    require(flushed, ErrorKind::io, "HDF5 cannot flush file '", path_.string(), "': ", reason);
    if (!closed) detail::fail_h5("close", path_, "");
  }
  if (writable_) files::sync_file(path_);
}

bool File::exists(const std::string& name) const {
  const Session session;
  if (name == "/") return true;
  // Every parent must be asked for first: a missing one is an error to the library, not a "no".
  for (std::size_t end = name.find('/', 1); end != std::string::npos;
       end = name.find('/', end + 1)) {
    if (check(H5Lexists(id_, name.substr(0, end).c_str(), H5P_DEFAULT), "look up", path_, name) ==
        0)
      return false;
  }
  return check(H5Lexists(id_, name.c_str(), H5P_DEFAULT), "look up", path_, name) > 0;
}

std::vector<std::string> File::list(const std::string& group) const {
  const Session session;
  const Handle id(check(H5Gopen2(id_, group.c_str(), H5P_DEFAULT), "open group", path_, group),
                  H5Gclose);
  std::vector<std::string> names;
  const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  check(H5Literate(id.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names), "list group",
        path_, group);
  return names;
}

void File::create_group(const std::string& name) {
  const Session session;
  const Handle links = link_list(path_, name);
  Handle group(check(H5Gcreate2(id_, name.c_str(), links.get(), H5P_DEFAULT, H5P_DEFAULT),
                     "create group", path_, name),
               H5Gclose);
  group.close("close group", path_, name);
}

DatasetInfo File::info(const std::string& name) const {
  const Session session;
  const Handle dataset = detail::open_dataset(id_, path_, name);
  const Handle type(check(H5Dget_type(dataset.get()), "read the type of", path_, name), H5Tclose);
  return {detail::classify(type.get(), path_, name), detail::shape_of(dataset.get(), path_, name)};
}

std::optional<std::uint64_t> File::contiguous_offset(const std::string& name) const {
  const Session session;
  const Handle dataset = detail::open_dataset(id_, path_, name);
  const Handle type(check(H5Dget_type(dataset.get()), "read the type of", path_, name), H5Tclose);
  const Handle native = detail::make_type(detail::classify(type.get(), path_, name));
  if (check(H5Tequal(type.get(), native.get()), "compare the type of", path_, name) == 0)
    return std::nullopt;
  const haddr_t offset = H5Dget_offset(dataset.get());
  H5Eclear2(H5E_DEFAULT);  // a chunked dataset is an error to the library and an answer to us
  if (offset == HADDR_UNDEF) return std::nullopt;
  return offset;
}

void File::create_dataset(const std::string& name, Type type, const Shape& shape, Storage storage) {
  const Session session;
  const Handle layout(check(H5Pcreate(H5P_DATASET_CREATE), "prepare", path_, name), H5Pclose);
  // A chunk may not be empty, hence what has no elements is never chunked.
  if (storage == Storage::compressed && !shape.empty() && count(shape) > 0)
    set_compressed(layout.get(), shape, path_, name);
  else
    check(H5Pset_layout(layout.get(), H5D_CONTIGUOUS), "prepare", path_, name);
  check(H5Pset_fill_time(layout.get(), H5D_FILL_TIME_NEVER), "prepare", path_, name);
  const Handle links = link_list(path_, name);
  const Handle element = detail::make_type(type);
  const Handle space = detail::make_space(shape, path_, name);
  Handle dataset(check(H5Dcreate2(id_, name.c_str(), element.get(), space.get(), links.get(),
                                  layout.get(), H5P_DEFAULT),
                       "create dataset", path_, name),
                 H5Dclose);
  dataset.close("close dataset", path_, name);
}

void File::write_part(const std::string& name, Type type, const Shape& offset, const Shape& extent,
                      const void* data) {
  const Session session;
  Selection part = select(id_, path_, name, type, offset, extent);
  if (count(extent) > 0)
    check(H5Dwrite(part.dataset.get(), part.type.get(), part.memory_space.get(),
                   part.file_space.get(), H5P_DEFAULT, data),
          str("write ", count(extent) * size_of(type), " bytes to").c_str(), path_, name);
  part.dataset.close("close dataset", path_, name);
}

void File::write(const std::string& name, Type type, const Shape& shape, const void* data,
                 Storage storage) {
  create_dataset(name, type, shape, storage);
  write_part(name, type, Shape(shape.size(), 0), shape, data);
}

void File::read_part(const std::string& name, Type type, const Shape& offset, const Shape& extent,
                     void* out) const {
  const Session session;
  const Selection part = select(id_, path_, name, type, offset, extent);
  if (count(extent) > 0)
    check(H5Dread(part.dataset.get(), part.type.get(), part.memory_space.get(),
                  part.file_space.get(), H5P_DEFAULT, out),
          "read", path_, name);
}

void File::create_virtual(const std::string& name, Type type, const Shape& shape,
                          const std::vector<VirtualPiece>& pieces) {
  const Session session;
  const Handle layout(check(H5Pcreate(H5P_DATASET_CREATE), "prepare", path_, name), H5Pclose);
  for (const VirtualPiece& piece : pieces) {
    const Handle target = detail::make_space(shape, path_, name);
    const std::vector<hsize_t> start(piece.offset.begin(), piece.offset.end());
    const std::vector<hsize_t> size(piece.extent.begin(), piece.extent.end());
    if (!shape.empty())
      check(H5Sselect_hyperslab(target.get(), H5S_SELECT_SET, start.data(), nullptr, size.data(),
                                nullptr),
            "place a piece in", path_, name);
    const Handle source = detail::make_space(piece.extent, path_, name);
    check(H5Pset_virtual(layout.get(), target.get(), piece.file.c_str(), piece.dataset.c_str(),
                         source.get()),
          "place a piece in", path_, name);
  }
  const Handle links = link_list(path_, name);
  const Handle element = detail::make_type(type);
  const Handle space = detail::make_space(shape, path_, name);
  Handle dataset(check(H5Dcreate2(id_, name.c_str(), element.get(), space.get(), links.get(),
                                  layout.get(), H5P_DEFAULT),
                       "create virtual dataset", path_, name),
                 H5Dclose);
  dataset.close("close virtual dataset", path_, name);
}

}  // namespace fathom::h5
