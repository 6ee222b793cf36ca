#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/dtype.h"

/// The one place that calls the HDF5 library. Every return value is checked, closing included; the
/// library's own printing is silenced and its error stack (with errno) goes into the message. The
/// serial library is not thread-safe: a process-wide mutex makes every call here safe from any
/// thread. Everything throws Error(io) that names the file and the dataset, or Error(data) where
/// the file is sound but holds something else than asked for.
namespace fathom::h5 {

/// Element types. bf16 is stored as a 16-bit floating-point type of HDF5's own, which h5py reads as
/// float32 without help.
enum class Type : std::uint8_t { u8, u16, i32, u32, i64, u64, bf16, f32, f64 };

std::size_t size_of(Type type);
const char* to_string(Type type);

template <typename T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, std::uint8_t>)
    return Type::u8;
  else if constexpr (std::is_same_v<T, std::uint16_t>)
    return Type::u16;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return Type::i32;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return Type::u32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return Type::i64;
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return Type::u64;
  else if constexpr (std::is_same_v<T, bf16>)
    return Type::bf16;
  else if constexpr (std::is_same_v<T, float>)
    return Type::f32;
  else if constexpr (std::is_same_v<T, double>)
    return Type::f64;
}

/// How a dataset's elements lie in the file.
enum class Storage {
  contiguous,  ///< in one piece, which can be mapped
  compressed,  ///< chunks of at most 8192 rows, bytes shuffled and deflated (with its checksum)
};

using Shape = std::vector<std::uint64_t>;

/// Number of elements; 1 for the empty shape (a scalar).
std::uint64_t count(const Shape& shape);
/// "[3, 4]"
std::string to_string(const Shape& shape);

struct DatasetInfo {
  Type type;
  Shape shape;
};

/// A whole dataset of another file that fills the rectangle at `offset` of a virtual dataset. A
/// relative file name is looked up beside the file that holds the virtual dataset.
struct VirtualPiece {
  std::string file;
  std::string dataset;
  Shape offset;
  Shape extent;
};

/// An open file. Movable; not to be used from two threads at once (two Files are independent).
class File {
 public:
  /// Makes a new file, replacing an old one.
  static File create(const std::filesystem::path& path);
  /// Opens for reading. HDF5's file locks are off: they fail on some cluster file systems, and each
  /// of our files has one writer.
  static File open(const std::filesystem::path& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  /// Closes quietly. A writer must call close(), which alone reports that the data is safe.
  ~File();

  /// Flushes, closes, and (if writable) forces the file to the disk. After a failed close the file
  /// is given up and HDF5 is not called on it again: a second attempt can crash the library.
  void close();

  const std::filesystem::path& path() const { return path_; }

  bool exists(const std::string& name) const;
  /// Names of the members of a group, sorted.
  std::vector<std::string> list(const std::string& group = "/") const;
  /// Missing parents are made as well. Making an existing group is an error.
  void create_group(const std::string& name);

  /// Element type and shape. Throws Error(data) for a type that is not in the list above.
  DatasetInfo info(const std::string& name) const;
  /// Where in the file the elements lie, if they lie there in one piece and in this machine's form,
  /// so that they can be mapped; nothing for a dataset that is chunked, compressed, byte-swapped or
  /// has no bytes yet.
  std::optional<std::uint64_t> contiguous_offset(const std::string& name) const;

  /// Makes a dataset whose content is undefined until written. One without elements is contiguous.
  void create_dataset(const std::string& name, Type type, const Shape& shape,
                      Storage storage = Storage::contiguous);
  /// Writes the rectangle [offset, offset + extent) of an existing dataset from a dense buffer.
  void write_part(const std::string& name, Type type, const Shape& offset, const Shape& extent,
                  const void* data);
  /// create_dataset and write_part of the whole.
  void write(const std::string& name, Type type, const Shape& shape, const void* data,
             Storage storage = Storage::contiguous);
  template <typename T>
  void write(const std::string& name, const Shape& shape, std::span<const T> data,
             Storage storage = Storage::contiguous) {
    require(data.size() == count(shape), ErrorKind::internal, "dataset '", name, "' of shape ",
            to_string(shape), " given ", data.size(), " elements");
    write(name, type_of<T>(), shape, data.data(), storage);
  }
  template <typename T>
  void write(const std::string& name, const std::vector<T>& data,
             Storage storage = Storage::contiguous) {
    write(name, {data.size()}, std::span<const T>(data), storage);
  }

  /// Reads a rectangle into a dense buffer. The element type must be the dataset's own (byte order
  /// may differ); a rectangle beyond the dataset is an Error(data).
  void read_part(const std::string& name, Type type, const Shape& offset, const Shape& extent,
                 void* out) const;
  template <typename T>
  void read_part(const std::string& name, const Shape& offset, const Shape& extent,
                 std::span<T> out) const {
    require(out.size() == count(extent), ErrorKind::internal, "dataset '", name, "': a buffer of ",
            out.size(), " elements for extent ", to_string(extent));
    read_part(name, type_of<T>(), offset, extent, out.data());
  }
  /// The whole dataset, row-major.
  template <typename T>
  std::vector<T> read(const std::string& name) const {
    const Shape shape = info(name).shape;
    std::vector<T> out(count(shape));
    read_part(name, type_of<T>(), Shape(shape.size(), 0), shape, out.data());
    return out;
  }

  /// Makes a dataset that shows pieces of other files as one. What no piece covers, or whose file
  /// is missing, reads as zero and without an error: for people's eyes, never for a program.
  void create_virtual(const std::string& name, Type type, const Shape& shape,
                      const std::vector<VirtualPiece>& pieces);

  /// Attributes of a group or dataset ("/" is the file itself). A text is UTF-8 without NUL bytes.
  void set_attribute(const std::string& object, const std::string& name, std::string_view text);
  void set_attribute(const std::string& object, const std::string& name, std::int64_t value);
  void set_attribute(const std::string& object, const std::string& name, double value);
  bool has_attribute(const std::string& object, const std::string& name) const;
  std::string text_attribute(const std::string& object, const std::string& name) const;
  std::int64_t int_attribute(const std::string& object, const std::string& name) const;
  double float_attribute(const std::string& object, const std::string& name) const;

 private:
  File(std::filesystem::path path, std::int64_t id, bool writable)
      : path_(std::move(path)), id_(id), writable_(writable) {}
  void abandon() noexcept;

  std::filesystem::path path_;
  std::int64_t id_ = -1;  ///< HDF5's hid_t, kept out of this header; -1 once closed
  bool writable_ = false;
};

/// Version of the library in use, and the locking variable if the environment sets one: a line for
/// the run header, since HDF5_USE_FILE_LOCKING overrides what we ask for.
std::string library_description();

}  // namespace fathom::h5
