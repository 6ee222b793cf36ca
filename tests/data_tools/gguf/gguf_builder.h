#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace fathom::data_tools::testing {

/// Writes GGUF files byte by byte, wrong ones above all.
class GgufBuilder {
 public:
  std::uint32_t magic = 0x46554747, version = 3;
  std::uint64_t extra_tensors = 0, extra_values = 0;  ///< claimed but not there

  /// A metadata entry whose kind and bytes the caller gives.
  GgufBuilder& value(const std::string& key, std::uint32_t kind, const std::string& bytes) {
    values_ += string(key) + number(kind) + bytes;
    ++value_count_;
    return *this;
  }
  GgufBuilder& u32(const std::string& key, std::uint32_t x) { return value(key, 4, number(x)); }
  GgufBuilder& f32(const std::string& key, float x) { return value(key, 6, number(x)); }
  GgufBuilder& text(const std::string& key, const std::string& x) {
    return value(key, 8, string(x));
  }
  GgufBuilder& texts(const std::string& key, const std::vector<std::string>& list) {
    std::string bytes = number(std::uint32_t{8}) + number(std::uint64_t{list.size()});
    for (const auto& item : list) bytes += string(item);
    return value(key, 9, bytes);
  }
  GgufBuilder& integers(const std::string& key, const std::vector<std::int32_t>& list) {
    std::string bytes = number(std::uint32_t{5}) + number(std::uint64_t{list.size()});
    for (const auto item : list) bytes += number(item);
    return value(key, 9, bytes);
  }
  /// Dims as they stand in the file: the fastest first.
  GgufBuilder& tensor(const std::string& name, const std::vector<std::uint64_t>& dims,
                      std::uint32_t type, std::uint64_t offset) {
    tensors_ += string(name) + number(static_cast<std::uint32_t>(dims.size()));
    for (const auto d : dims) tensors_ += number(d);
    tensors_ += number(type) + number(offset);
    ++tensor_count_;
    return *this;
  }

  void write(const std::filesystem::path& path, std::size_t data_bytes) const {
    std::string all = number(magic) + number(version) + number(tensor_count_ + extra_tensors) +
                      number(value_count_ + extra_values) + values_ + tensors_;
    all.resize((all.size() + 31) / 32 * 32 + data_bytes, '\0');
    std::ofstream(path, std::ios::binary) << all;
  }

  template <typename T>
  static std::string number(T x) {
    return std::string(reinterpret_cast<const char*>(&x), sizeof x);
  }
  static std::string string(const std::string& x) { return number(std::uint64_t{x.size()}) + x; }

 private:
  std::string values_, tensors_;
  std::uint64_t value_count_ = 0, tensor_count_ = 0;
};

}  // namespace fathom::data_tools::testing
