#include "checkpoints/checkpoint_reader.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "checkpoints/element.h"
#include "checkpoints/h5_types.h"
#include "checkpoints/run_folder.h"
#include "core/error.h"
#include "core/files.h"

namespace fathom::checkpoints {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// What rank 0 found, in a form that travels.
struct Discovery {
  std::string folder;    ///< empty if the run has no checkpoint
  std::string manifest;  ///< its text
  std::vector<std::string> warnings;
};

Discovery discover_in(const fs::path& folder) {
  load_manifest(folder);
  return {folder.string(), files::read_text(folder / kManifestName), {}};
}

/// The newest checkpoint that is sound; any newer one that is not is an error or a warning.
Discovery discover_latest(const fs::path& run_folder, const OpenOptions& options) {
  auto steps = committed_steps(run_folder);
  // LATEST is written after the rename: it may lag behind, but what it names must be there.
  const auto latest = latest_step(run_folder);
  if (latest && (steps.empty() || steps.back() < *latest)) steps.push_back(*latest);
  std::erase_if(steps, [&](std::int64_t step) { return step >= options.before; });

  std::vector<std::string> damages;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      Discovery found = discover_in(run_folder / step_name(*step));
      found.warnings = std::move(damages);
      return found;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::config) throw;  // sound, and not for this program
      if (!options.allow_fallback)
        fail(ErrorKind::io, error.what(),
             "; an earlier checkpoint is taken only if fallback is allowed "
             "(run.resume_fallback=true)");
      damages.push_back(str("passing over ", step_name(*step), ": ", error.what()));
    }
  }
  std::string all;
  for (const std::string& damage : damages) all += (all.empty() ? "" : "; ") + damage;
  require(damages.empty(), ErrorKind::io, "'", run_folder.string(),
          "' has no sound checkpoint: ", all);
  return {};
}

/// Runs `discover` on rank 0 and gives its result, or its error, to all.
Discovery share(comm::Communicator& world, const std::function<Discovery()>& discover) {
  json message;
  if (world.rank() == 0) {
    try {
      const Discovery found = discover();
      message = {
          {"folder", found.folder}, {"manifest", found.manifest}, {"warnings", found.warnings}};
    } catch (const Error& error) {
      message = {{"error", error.what()}, {"kind", static_cast<int>(error.kind())}};
    } catch (const std::exception& error) {
      message = {{"error", error.what()}, {"kind", static_cast<int>(ErrorKind::io)}};
    }
  }
  message = json::parse(
      world.broadcast_text(message.dump(-1, ' ', false, json::error_handler_t::replace), 0));
  if (message.contains("error"))
    fail(static_cast<ErrorKind>(message["kind"].get<int>()), message["error"].get<std::string>());
  return {message["folder"].get<std::string>(), message["manifest"].get<std::string>(),
          message["warnings"].get<std::vector<std::string>>()};
}

/// A shard that holds something else than the manifest says is damaged: HDF5 shows a changed header
/// as another type, or another shape, of a sound file.
template <typename Read>
void read_shard(Read read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    fail(ErrorKind::io, "a checkpoint's shard is damaged: ", error.what());
  }
}

}  // namespace

Manifest load_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  Manifest manifest = parse_manifest(files::read_text(path), path.string());
  for (const auto& [name, bytes] : manifest.files) {
    std::error_code code;
    const auto found = fs::file_size(folder / name, code);
    require(!code, ErrorKind::io, "checkpoint file '", (folder / name).string(),
            "' cannot be found: ", code.message());
    require(found == bytes, ErrorKind::io, "checkpoint file '", (folder / name).string(), "' has ",
            found, " bytes; the manifest says ", bytes);
  }
  return manifest;
}

void check_piece(const h5::File& shard, const std::string& name, DType dtype,
                 const PieceRecord& piece) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(element_count(piece.box)) * size_of(dtype));
  read_shard([&] {
    shard.read_part(piece.dataset, to_h5(dtype), h5::Shape(piece.box.extent.size(), 0),
                    to_h5(piece.box.extent), bytes.data());
  });
  const std::uint64_t found = checksum(bytes.data(), bytes.size());
  require(found == piece.xxh64, ErrorKind::io, "checkpoint file '", shard.path().string(),
          "': tensor '", name, "', piece ", to_string(piece.box), ": checksum ", hex(found),
          " instead of ", hex(piece.xxh64), ": the content is damaged");
}

std::optional<CheckpointReader> CheckpointReader::open_latest(comm::Communicator& world,
                                                              const fs::path& run_folder,
                                                              const OpenOptions& options) {
  const Discovery found = share(world, [&] { return discover_latest(run_folder, options); });
  if (options.warn)
    for (const std::string& warning : found.warnings) options.warn(warning);
  if (found.folder.empty()) return std::nullopt;
  return CheckpointReader(found.folder, parse_manifest(found.manifest, found.folder),
                          options.verify);
}

CheckpointReader CheckpointReader::open(comm::Communicator& world, const fs::path& folder,
                                        const OpenOptions& options) {
  const Discovery found = share(world, [&] { return discover_in(folder); });
  return CheckpointReader(found.folder, parse_manifest(found.manifest, found.folder),
                          options.verify);
}

const TensorRecord& CheckpointReader::at(const std::string& name) const {
  const auto found = manifest_.tensors.find(name);
  require(found != manifest_.tensors.end(), ErrorKind::io, "checkpoint '", folder_.string(),
          "' has no tensor '", name, "'");
  return found->second;
}

const TensorRecord& CheckpointReader::at(const std::string& name, const Shape& shape) const {
  const TensorRecord& tensor = at(name);
  require(tensor.shape == shape, ErrorKind::io, "checkpoint '", folder_.string(), "': tensor '",
          name, "' has shape ", to_string(tensor.shape), ", the run wants ", to_string(shape));
  return tensor;
}

const h5::File& CheckpointReader::shard(const std::string& file) {
  const auto known = shards_.find(file);
  if (known != shards_.end()) return known->second;
  return shards_.emplace(file, h5::File::open(folder_ / file)).first->second;
}

void CheckpointReader::verify_piece(const std::string& name, DType dtype,
                                    const PieceRecord& piece) {
  const std::string key = piece.file + ":" + piece.dataset;
  if (verified_.contains(key)) return;
  check_piece(shard(piece.file), name, dtype, piece);
  verified_.insert(key);
}

void CheckpointReader::read_piece(const std::string& name, DType dtype, const PieceRecord& piece,
                                  const Rectangle& part, std::byte* out) {
  if (verify_) verify_piece(name, dtype, piece);
  h5::Shape offset = to_h5(part.offset);
  for (std::size_t d = 0; d < offset.size(); ++d)
    offset[d] -= static_cast<std::uint64_t>(piece.box.offset[d]);
  read_shard([&] {
    shard(piece.file).read_part(piece.dataset, to_h5(dtype), offset, to_h5(part.extent), out);
  });
}

void CheckpointReader::read(const std::string& name, const Rectangle& box, DType dtype, void* out) {
  const TensorRecord& tensor = at(name);
  require(tensor.dtype == dtype, ErrorKind::io, "checkpoint '", folder_.string(), "': tensor '",
          name, "' is ", to_string(tensor.dtype), ", not ", to_string(dtype));
  require(lies_within(box, tensor.shape), ErrorKind::io, "checkpoint '", folder_.string(),
          "': tensor '", name, "' of shape ", to_string(tensor.shape), " has no part ",
          to_string(box));
  auto* bytes = static_cast<std::byte*>(out);
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> buffer;
  for (const PieceRecord& piece : tensor.pieces) {
    const auto part = intersect(box, piece.box);
    if (!part) continue;
    if (*part == box) return read_piece(name, dtype, piece, box, bytes);
    buffer.resize(static_cast<std::size_t>(element_count(*part)) * size);
    read_piece(name, dtype, piece, *part, buffer.data());
    for_each_run(box, *part, [&](auto to, auto from, auto length) {
      std::memcpy(bytes + static_cast<std::size_t>(to) * size,
                  buffer.data() + static_cast<std::size_t>(from) * size,
                  static_cast<std::size_t>(length) * size);
    });
  }
}

void CheckpointReader::read(const std::string& name, const Rectangle& box, float* out) {
  if (at(name).dtype != DType::bf16) return read(name, box, DType::f32, out);
  const auto n = static_cast<std::size_t>(element_count(box));
  std::vector<std::byte> narrow(n * sizeof(bf16));
  read(name, box, DType::bf16, narrow.data());
  convert_to_f32(Element::bf16, narrow.data(), n, out);
}

}  // namespace fathom::checkpoints
