#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "checkpoints/mapped_file.h"
#include "checkpoints/rectangle.h"

namespace fathom::data_tools {

/// Storage kinds that are read; the numbers are ggml's own.
enum class GgmlType : std::uint32_t { f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q8_0 = 8, bf16 = 30 };

const char* to_string(GgmlType type);

/// A metadata value: integers of every width as int64, arrays of three kinds.
using GgufValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<std::string>>;

struct GgufTensor {
  std::string name;
  GgmlType type;
  checkpoints::Shape shape;  ///< row-major: the file's dims reversed
  std::span<const std::byte> bytes;
};

/// A GGUF file, version 2 or 3, little endian, mapped into memory. Everything is checked at
/// opening: each count, length and offset against the file's size, duplicate names, alignment,
/// overlaps. Throws Error(io) if it cannot be read and Error(data) naming file, key or tensor, and
/// position.
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::map<std::string, GgufTensor>& tensors() const { return tensors_; }
  bool has(const std::string& key) const { return metadata_.count(key) != 0; }

  /// A metadata value of this kind (an integer counts as a double too). Throws Error(data) naming
  /// the key if it is missing or of another kind; the second form has a value for "missing".
  template <typename T>
  T get(const std::string& key) const;
  template <typename T>
  T get(const std::string& key, const T& otherwise) const {
    return has(key) ? get<T>(key) : otherwise;
  }

 private:
  checkpoints::MappedFile file_;
  std::map<std::string, GgufValue> metadata_;
  std::map<std::string, GgufTensor> tensors_;
};

/// Dequantises a whole tensor, row-major.
std::vector<float> dequantise(const GgufTensor& tensor);

/// Bytes of a block and the number of elements it holds (1 for the plain kinds).
struct GgmlBlock {
  std::uint64_t bytes;
  std::int64_t elements;
};
/// Nothing for a kind that is not read.
std::optional<GgmlBlock> block_of(std::uint32_t ggml_type);

}  // namespace fathom::data_tools
