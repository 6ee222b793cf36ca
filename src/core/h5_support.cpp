#include "core/h5_support.h"

#include <bit>
#include <cstdlib>

#include "core/files.h"

namespace fathom::h5 {

static_assert(std::endian::native == std::endian::little, "checkpoints are little endian");

std::size_t size_of(Type type) {
  switch (type) {
    case Type::u8:
      return 1;
    case Type::u16:
    case Type::bf16:
      return 2;
    case Type::i32:
    case Type::u32:
    case Type::f32:
      return 4;
    case Type::i64:
    case Type::u64:
    case Type::f64:
      return 8;
  }
  FATHOM_CHECK(false, "type ", static_cast<int>(type));
}

const char* to_string(Type type) {
  static constexpr const char* names[] = {"u8",  "u16",  "i32", "u32", "i64",
                                          "u64", "bf16", "f32", "f64"};
  return names[static_cast<std::size_t>(type)];
}

std::uint64_t count(const Shape& shape) {
  std::uint64_t n = 1;
  for (const auto d : shape) n *= d;
  return n;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string library_description() {
  const detail::Session session;
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  std::string text = str("HDF5 ", major, ".", minor, ".", release);
  if (const char* locking = std::getenv("HDF5_USE_FILE_LOCKING"))
    text += str(", HDF5_USE_FILE_LOCKING=", locking, " (overrides the program's 'off')");
  return text;
}

namespace detail {
namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// 1 sign bit, 8 of exponent, 7 of fraction.
hid_t make_bf16() {
  const hid_t id = H5Tcopy(H5T_IEEE_F32LE);
  const bool good = id >= 0 && H5Tset_fields(id, 15, 7, 8, 0, 7) >= 0 && H5Tset_size(id, 2) >= 0 &&
                    H5Tset_ebias(id, 127) >= 0;
  if (!good) fail(ErrorKind::io, "HDF5 cannot make the bf16 type: ", take_error_stack());
  return id;
}

herr_t append_frame(unsigned, const H5E_error2_t* frame, void* out) {
  auto& text = *static_cast<std::string*>(out);
  if (frame->desc != nullptr && *frame->desc != '\0') {
    if (!text.empty()) text += " < ";
    text += frame->desc;
  }
  return 0;
}

}  // namespace

Session::Session() : lock_(library_mutex()) {
  static const bool ready = [] {
    // At exit the library would flush what a failed close left behind, and crash: every file is
    // closed by its owner instead.
    H5dont_atexit();
    files::ignore_file_size_signal();
    return H5open() >= 0;
  }();
  // Where the library was built with threads, each of them has its own error stack and printer.
  thread_local const bool silent = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  require(ready && silent, ErrorKind::io, "the HDF5 library does not start");
}

std::string take_error_stack() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, append_frame, &text);
  H5Eclear2(H5E_DEFAULT);
  return text.empty() ? "no further explanation" : text;
}

void fail_h5(const char* what, const std::filesystem::path& path, const std::string& name) {
  std::string text = str("HDF5 cannot ", what, " ");
  if (!name.empty()) text += str("'", name, "' in ");
  text += str("file '", path.string(), "': ", take_error_stack());
  if (text.find("lock") != std::string::npos && std::getenv("HDF5_USE_FILE_LOCKING") != nullptr)
    text +=
        str("; the environment sets HDF5_USE_FILE_LOCKING=", std::getenv("HDF5_USE_FILE_LOCKING"),
            ", which forces file locks: unset it");
  fail(ErrorKind::io, text);
}

Handle make_type(Type type) {
  hid_t standard = -1;
  switch (type) {
    case Type::bf16:
      return {make_bf16(), H5Tclose};
    case Type::u8:
      standard = H5T_STD_U8LE;
      break;
    case Type::u16:
      standard = H5T_STD_U16LE;
      break;
    case Type::i32:
      standard = H5T_STD_I32LE;
      break;
    case Type::u32:
      standard = H5T_STD_U32LE;
      break;
    case Type::i64:
      standard = H5T_STD_I64LE;
      break;
    case Type::u64:
      standard = H5T_STD_U64LE;
      break;
    case Type::f32:
      standard = H5T_IEEE_F32LE;
      break;
    case Type::f64:
      standard = H5T_IEEE_F64LE;
      break;
  }
  return {H5Tcopy(standard), H5Tclose};
}

Type classify(hid_t stored, const std::filesystem::path& path, const std::string& name) {
  const H5T_class_t kind = H5Tget_class(stored);
  const std::size_t size = H5Tget_size(stored);
  if (kind == H5T_INTEGER) {
    const bool is_signed = H5Tget_sign(stored) == H5T_SGN_2;
    if (size == 1 && !is_signed) return Type::u8;
    if (size == 2 && !is_signed) return Type::u16;
    if (size == 4) return is_signed ? Type::i32 : Type::u32;
    if (size == 8) return is_signed ? Type::i64 : Type::u64;
  }
  if (kind == H5T_FLOAT) {
    if (size == 4) return Type::f32;
    if (size == 8) return Type::f64;
    if (size == 2 && H5Tget_ebias(stored) == 127) return Type::bf16;
  }
  fail(ErrorKind::data, "'", name, "' in file '", path.string(), "' has an element type of class ",
       static_cast<int>(kind), " and ", size,
       " bytes; u8, u16, i32, u32, i64, u64, bf16, f32, f64 work");
}

Handle make_space(const Shape& shape, const std::filesystem::path& path, const std::string& name) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  const hid_t id = shape.empty()
                       ? H5Screate(H5S_SCALAR)
                       : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
  return {check(id, "make a data space for", path, name), H5Sclose};
}

Handle open_dataset(hid_t file, const std::filesystem::path& path, const std::string& name) {
  return {check(H5Dopen2(file, name.c_str(), H5P_DEFAULT), "open dataset", path, name), H5Dclose};
}

Shape shape_of(hid_t dataset, const std::filesystem::path& path, const std::string& name) {
  const Handle space(check(H5Dget_space(dataset), "read the shape of", path, name), H5Sclose);
  const int rank = check(H5Sget_simple_extent_ndims(space.get()), "read the shape of", path, name);
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  if (rank > 0)
    check(H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr), "read the shape of", path,
          name);
  return Shape(dims.begin(), dims.end());
}

}  // namespace detail
}  // namespace fathom::h5
