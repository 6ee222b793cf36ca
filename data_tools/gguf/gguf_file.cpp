#include "data_tools/gguf/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"

namespace fathom::data_tools {
namespace {

using checkpoints::Shape;

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;

/// The numbers of the value kinds in the file.
enum class Kind : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};

/// Reads forward through the file and refuses to leave it.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string file)
      : bytes_(bytes), file_(std::move(file)) {}

  template <typename T>
  T read(const std::string& what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what), sizeof(T));
    return value;
  }
  std::string read_string(const std::string& what) {
    const auto length = read<std::uint64_t>(what);
    const auto* begin = reinterpret_cast<const char*>(take(length, what));
    return std::string(begin, length);
  }
  /// A number of things of at least `least` bytes each, which must fit into the rest of the file.
  std::uint64_t read_count(std::uint64_t least, const std::string& what) {
    const auto n = read<std::uint64_t>(what);
    if (n > (bytes_.size() - at_) / least)
      refuse(str(what, ": ", n, " of them do not fit into the file"));
    return n;
  }
  [[noreturn]] void refuse(const std::string& reason) const {
    fail(ErrorKind::data, "'", file_, "': ", reason, " (before byte ", at_, " of ", bytes_.size(),
         ")");
  }
  std::uint64_t position() const { return at_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  const std::byte* take(std::uint64_t n, const std::string& what) {
    if (n > bytes_.size() - at_) refuse(str(what, " of ", n, " bytes ends behind the file"));
    const std::byte* begin = bytes_.data() + at_;
    at_ += n;
    return begin;
  }

  std::span<const std::byte> bytes_;
  std::string file_;
  std::uint64_t at_ = 0;
};

bool is_integer(Kind kind) {
  return kind <= Kind::i32 || kind == Kind::u64 || kind == Kind::i64;
}

std::int64_t read_integer(Cursor& in, Kind kind, const std::string& what) {
  switch (kind) {
    case Kind::u8:
      return in.read<std::uint8_t>(what);
    case Kind::i8:
      return in.read<std::int8_t>(what);
    case Kind::u16:
      return in.read<std::uint16_t>(what);
    case Kind::i16:
      return in.read<std::int16_t>(what);
    case Kind::u32:
      return in.read<std::uint32_t>(what);
    case Kind::i32:
      return in.read<std::int32_t>(what);
    case Kind::i64:
      return in.read<std::int64_t>(what);
    case Kind::u64: {
      const auto value = in.read<std::uint64_t>(what);
      if (value >> 63 != 0) in.refuse(str(what, ": ", value, " is too large"));
      return static_cast<std::int64_t>(value);
    }
    default:
      in.refuse(str(what, ": kind ", static_cast<std::uint32_t>(kind), " is no integer"));
  }
}

double read_float(Cursor& in, Kind kind, const std::string& what) {
  return kind == Kind::f32 ? static_cast<double>(in.read<float>(what)) : in.read<double>(what);
}

bool read_bool(Cursor& in, const std::string& what) {
  const auto value = in.read<std::uint8_t>(what);
  if (value > 1) in.refuse(str(what, ": ", int{value}, " is no boolean"));
  return value == 1;
}

template <typename T, typename Read>
std::vector<T> read_items(std::uint64_t n, Read read) {
  std::vector<T> items;
  items.reserve(n);
  for (std::uint64_t i = 0; i < n; ++i) items.push_back(read());
  return items;
}

GgufValue read_array(Cursor& in, const std::string& what) {
  const auto kind = static_cast<Kind>(in.read<std::uint32_t>(what));
  const auto n = in.read_count(kind == Kind::string ? 8 : 1, what);
  if (is_integer(kind))
    return read_items<std::int64_t>(n, [&] { return read_integer(in, kind, what); });
  if (kind == Kind::boolean)
    return read_items<std::int64_t>(n, [&] { return std::int64_t{read_bool(in, what)}; });
  if (kind == Kind::f32 || kind == Kind::f64)
    return read_items<double>(n, [&] { return read_float(in, kind, what); });
  if (kind == Kind::string) return read_items<std::string>(n, [&] { return in.read_string(what); });
  in.refuse(str(what, ": array of unknown kind ", static_cast<std::uint32_t>(kind)));
}

GgufValue read_value(Cursor& in, const std::string& what) {
  const auto kind = static_cast<Kind>(in.read<std::uint32_t>(what));
  if (is_integer(kind)) return read_integer(in, kind, what);
  switch (kind) {
    case Kind::f32:
    case Kind::f64:
      return read_float(in, kind, what);
    case Kind::boolean:
      return read_bool(in, what);
    case Kind::string:
      return in.read_string(what);
    case Kind::array:
      return read_array(in, what);
    default:
      in.refuse(str(what, ": unknown kind ", static_cast<std::uint32_t>(kind)));
  }
}

/// A tensor's entry before its bytes are known to lie inside the file.
struct TensorInfo {
  std::string name;
  GgmlType type;
  Shape shape;
  std::uint64_t offset;
  std::uint64_t bytes;
};

TensorInfo read_tensor_info(Cursor& in) {
  TensorInfo info{in.read_string("tensor name"), GgmlType::f32, {}, 0, 0};
  const std::string what = "tensor '" + info.name + "'";
  const auto dims = in.read<std::uint32_t>(what);
  if (dims < 1 || dims > 4) in.refuse(str(what, " has ", dims, " dims; 1 to 4 are possible"));
  std::int64_t elements = 1;
  for (std::uint32_t d = 0; d < dims; ++d) {
    const std::int64_t extent = read_integer(in, Kind::u64, what);
    if (extent < 1 || extent > kMaxElements / elements)
      in.refuse(str(what, " has an impossible extent ", extent));
    elements *= extent;
    info.shape.push_back(extent);
  }
  std::reverse(info.shape.begin(), info.shape.end());
  const auto type = in.read<std::uint32_t>(what);
  const auto block = block_of(type);
  if (!block)
    in.refuse(
        str(what, " has storage kind ", type, "; F32, F16, BF16, Q8_0, Q4_0 and Q4_1 are read"));
  if (info.shape.back() % block->elements != 0)
    in.refuse(str(what, ": rows of ", info.shape.back(), " elements are no whole blocks of ",
                  block->elements));
  info.type = static_cast<GgmlType>(type);
  info.bytes = static_cast<std::uint64_t>(elements / block->elements) * block->bytes;
  info.offset = in.read<std::uint64_t>(what);
  return info;
}

void check_places(std::vector<TensorInfo> infos, std::uint64_t room, std::uint64_t alignment,
                  const Cursor& in) {
  std::sort(infos.begin(), infos.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  std::uint64_t next = 0;
  for (const TensorInfo& info : infos) {
    const std::string what = "tensor '" + info.name + "'";
    if (info.offset % alignment != 0)
      in.refuse(str(what, " begins at ", info.offset, ", no multiple of ", alignment));
    if (info.offset < next) in.refuse(str(what, " overlaps the one before it"));
    if (info.offset > room || info.bytes > room - info.offset)
      in.refuse(str(what, " of ", info.bytes, " bytes at ", info.offset,
                    " ends behind the file: it is truncated"));
    next = info.offset + info.bytes;
  }
}

void read_header(Cursor& in) {
  if (in.read<std::uint32_t>("magic") != kMagic) in.refuse("it is no GGUF file");
  const auto version = in.read<std::uint32_t>("version");
  if (version != 2 && version != 3)
    in.refuse(str("it has version ", version, "; 2 and 3, little endian, are read"));
}

}  // namespace

GgufFile::GgufFile(const std::filesystem::path& path) : file_(path) {
  Cursor in(file_.bytes(), path.string());
  read_header(in);
  const auto tensor_count = in.read_count(24, "tensor count");
  const auto value_count = in.read_count(13, "metadata count");
  for (std::uint64_t i = 0; i < value_count; ++i) {
    const std::string key = in.read_string("metadata key");
    if (!metadata_.emplace(key, read_value(in, "metadata '" + key + "'")).second)
      in.refuse("metadata '" + key + "' occurs twice");
  }
  std::vector<TensorInfo> infos;
  for (std::uint64_t i = 0; i < tensor_count; ++i) infos.push_back(read_tensor_info(in));

  const auto alignment =
      static_cast<std::uint64_t>(get<std::int64_t>("general.alignment", std::int64_t{32}));
  if (!std::has_single_bit(alignment) || alignment > (1u << 20))
    in.refuse(str("general.alignment is ", alignment, "; a power of two is wanted"));
  const std::uint64_t begin = (in.position() + alignment - 1) / alignment * alignment;
  const std::uint64_t room = in.bytes().size() > begin ? in.bytes().size() - begin : 0;
  check_places(infos, room, alignment, in);
  for (TensorInfo& info : infos) {
    const auto bytes = in.bytes().subspan(begin + info.offset, info.bytes);
    const std::string name = info.name;
    if (!tensors_.emplace(name, GgufTensor{name, info.type, info.shape, bytes}).second)
      in.refuse("tensor '" + name + "' occurs twice");
  }
}

template <typename T>
T GgufFile::get(const std::string& key) const {
  const auto found = metadata_.find(key);
  require(found != metadata_.end(), ErrorKind::data, "'", path().string(), "' has no metadata '",
          key, "'");
  if constexpr (std::is_same_v<T, double>) {
    if (const auto* integer = std::get_if<std::int64_t>(&found->second))
      return static_cast<double>(*integer);
  }
  const T* value = std::get_if<T>(&found->second);
  require(value != nullptr, ErrorKind::data, "'", path().string(), "': metadata '", key,
          "' is not of the kind that is wanted");
  return *value;
}

template std::int64_t GgufFile::get(const std::string&) const;
template double GgufFile::get(const std::string&) const;
template bool GgufFile::get(const std::string&) const;
template std::string GgufFile::get(const std::string&) const;
template std::vector<std::int64_t> GgufFile::get(const std::string&) const;
template std::vector<std::string> GgufFile::get(const std::string&) const;

}  // namespace fathom::data_tools
