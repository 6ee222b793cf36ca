#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoints/element.h"
#include "checkpoints/mapped_file.h"
#include "checkpoints/rectangle.h"

namespace fathom::checkpoints {

/// One tensor of a safetensors file: what it is and where its bytes lie.
struct SafetensorsEntry {
  std::string name;
  Element element;
  Shape shape;
  std::size_t file;     ///< index into files()
  std::uint64_t begin;  ///< of the first byte in that file
  std::uint64_t bytes;
};

/// The tensors of one file, or of a Hugging Face folder in one or several files, mapped into
/// memory: opening costs the headers only. Everything is checked at opening: header length and
/// JSON, element types, shapes against byte spans, overlaps, gaps, truncation, and the index
/// against the files. Throws Error(io) if a file cannot be read, Error(data) naming file and tensor
/// if it is malformed. Reading is safe from several threads.
class SafetensorsReader {
 public:
  /// `path` is a .safetensors file, or a folder with model.safetensors (preferred) or
  /// model.safetensors.index.json; adapter_model.safetensors is taken if neither is there.
  explicit SafetensorsReader(const std::filesystem::path& path);

  /// All tensors by name.
  const std::map<std::string, SafetensorsEntry>& tensors() const { return entries_; }
  bool contains(const std::string& name) const { return entries_.count(name) != 0; }
  /// Throws Error(data) naming the file, the tensor and the closest names if it is missing.
  const SafetensorsEntry& at(const std::string& name) const;
  /// As at(), and throws Error(data) unless the tensor has this shape.
  const SafetensorsEntry& at(const std::string& name, const Shape& shape) const;

  /// The tensor's bytes as they are stored. They may be unaligned.
  std::span<const std::byte> bytes(const std::string& name) const;

  /// Copies a box of a floating-point tensor, converted, densely into out[element_count(box)].
  /// Throws Error(data) if the tensor is missing or no floating-point kind, or the box is not
  /// inside.
  void read(const std::string& name, const Rectangle& box, float* out) const;
  void read(const std::string& name, const Rectangle& box, bf16* out) const;
  /// The whole tensor.
  std::vector<float> read_f32(const std::string& name) const;
  /// The whole of an integer tensor.
  std::vector<std::int64_t> read_i64(const std::string& name) const;

  /// The "__metadata__" texts of all files.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::vector<MappedFile>& files() const { return files_; }

 private:
  void add_file(const std::filesystem::path& path);
  void add_indexed(const std::filesystem::path& index);
  template <typename Convert, typename Out>
  void read_box(const std::string& name, const Rectangle& box, Out* out, Convert convert) const;

  std::filesystem::path source_;
  std::vector<MappedFile> files_;
  std::map<std::string, SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// A tensor to be written.
struct SafetensorsPlan {
  std::string name;
  Element element;
  Shape shape;

  std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(element_count(shape)) * size_of(element);
  }
};

/// Takes one tensor's values in row-major order, in as many calls as the giver likes.
class SafetensorsSink {
 public:
  virtual ~SafetensorsSink() = default;
  /// Bytes as they shall be stored.
  virtual void put_bytes(std::span<const std::byte> bytes) = 0;
  /// Values converted to the planned element type, which must be F32, BF16 or (exactly) F64.
  virtual void put(std::span<const float> values) = 0;
};

/// Called once for each planned tensor, in the order of the file, to give its values.
using SafetensorsFill = std::function<void(const SafetensorsPlan&, SafetensorsSink&)>;

/// Writes one file, streaming: nothing but what `fill` holds is in memory. The file appears under
/// its name only when it is complete and on the disk. Wider element types come first, so that all
/// values are aligned. "format": "pt" is added to the metadata, as Hugging Face loaders want.
/// Throws Error(io) on a failed write (the old file stays) and Error(internal) if fill gives more
/// or fewer bytes than planned or two tensors share a name.
void write_safetensors(const std::filesystem::path& path, std::vector<SafetensorsPlan> plan,
                       const SafetensorsFill& fill,
                       const std::map<std::string, std::string>& metadata = {});

/// Hugging Face's default limit of one file.
inline constexpr std::uint64_t kDefaultShardBytes = 5'000'000'000;

/// Writes a model into a folder: model.safetensors, or, above `shard_bytes`, the files
/// model-0000i-of-0000n.safetensors and, last, model.safetensors.index.json. Weights of an earlier
/// export in the folder are removed after that.
void write_safetensors_folder(const std::filesystem::path& folder,
                              const std::vector<SafetensorsPlan>& plan, const SafetensorsFill& fill,
                              std::uint64_t shard_bytes = kDefaultShardBytes);

}  // namespace fathom::checkpoints
