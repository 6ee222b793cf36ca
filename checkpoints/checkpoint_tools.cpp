#include "checkpoints/checkpoint_tools.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "core/error.h"
#include "core/files.h"
#include "core/parameter_names.h"

namespace fathom::checkpoints {
namespace {

bool is_moment(const std::string& name) {
  return name.find('#') != std::string::npos;
}

/// Sizes and presence of the listed files; returns the names that can be opened.
std::set<std::string> verify_files(const std::filesystem::path& folder, const Manifest& manifest,
                                   std::vector<std::string>& damages) {
  std::set<std::string> sound;
  for (const auto& [name, bytes] : manifest.files) {
    std::error_code code;
    const auto found = std::filesystem::file_size(folder / name, code);
    if (code) {
      damages.push_back(str("'", name, "' cannot be found: ", code.message()));
      continue;
    }
    if (found != bytes)
      damages.push_back(str("'", name, "' has ", found, " bytes; the manifest says ", bytes));
    sound.insert(name);
  }
  return sound;
}

/// Streams a tensor in slices of its first dim.
void export_tensor(CheckpointReader& reader, const SafetensorsPlan& plan, SafetensorsSink& sink) {
  constexpr std::int64_t slice_elements = 4 << 20;
  const Shape& shape = plan.shape;
  const std::int64_t rows = shape.empty() ? 1 : shape[0];
  const std::int64_t row = rows == 0 ? 0 : element_count(shape) / rows;
  const std::int64_t step =
      std::max<std::int64_t>(1, slice_elements / std::max<std::int64_t>(1, row));
  std::vector<float> values;
  for (std::int64_t at = 0; at < rows; at += step) {
    Rectangle box = whole(shape);
    if (!shape.empty()) {
      box.offset[0] = at;
      box.extent[0] = std::min(step, rows - at);
    }
    values.resize(static_cast<std::size_t>(element_count(box)));
    if (plan.element == Element::i32) {
      reader.read(plan.name, box, DType::i32, values.data());
      sink.put_bytes(std::as_bytes(std::span<const float>(values)));
    } else {
      reader.read(plan.name, box, values.data());
      sink.put(values);
    }
  }
}

}  // namespace

std::string inspect(const std::filesystem::path& folder) {
  const Manifest manifest = load_manifest(folder);
  std::ostringstream out;
  out << "checkpoint  " << folder.string() << "\nstep        " << manifest.run.step
      << "\nprogram     " << manifest.run.program << "\ngrid        " << manifest.run.grid
      << "\nstate       " << manifest.run.state << "\n\nfiles\n";
  for (const auto& [name, bytes] : manifest.files)
    out << "  " << std::left << std::setw(16) << name << std::right << std::setw(14) << bytes
        << " bytes\n";

  std::size_t width = 6;
  std::int64_t elements = 0, moments = 0;
  for (const auto& [name, tensor] : manifest.tensors) {
    width = std::max(width, name.size());
    (is_moment(name) ? moments : elements) += element_count(tensor.shape);
  }
  out << "\n"
      << manifest.tensors.size() << " tensors, " << elements << " elements, and " << moments
      << " of optimizer moments\n";
  for (const auto& [name, tensor] : manifest.tensors) {
    out << "  " << std::left << std::setw(static_cast<int>(width)) << name << "  " << std::setw(4)
        << to_string(tensor.dtype) << "  " << std::setw(16) << to_string(tensor.shape) << std::right
        << "  " << tensor.pieces.size() << (tensor.pieces.size() == 1 ? " piece in" : " pieces in");
    std::set<std::string> files;
    for (const PieceRecord& piece : tensor.pieces) files.insert(piece.file);
    for (const std::string& file : files) out << ' ' << file;
    out << '\n';
  }
  return out.str();
}

std::vector<std::string> verify(const std::filesystem::path& folder) {
  const auto path = folder / kManifestName;
  std::vector<std::string> damages;
  Manifest manifest;
  try {
    manifest = parse_manifest(files::read_text(path), path.string());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::config) throw;
    return {error.what()};
  }
  std::map<std::string, h5::File> shards;
  for (const std::string& name : verify_files(folder, manifest, damages)) {
    try {
      shards.emplace(name, h5::File::open(folder / name));
    } catch (const Error& error) {
      damages.emplace_back(error.what());
    }
  }
  for (const auto& [name, tensor] : manifest.tensors) {
    for (const PieceRecord& piece : tensor.pieces) {
      const auto shard = shards.find(piece.file);
      try {
        require(shard != shards.end(), ErrorKind::io, "tensor '", name, "', piece ",
                to_string(piece.box), ": lost with '", piece.file, "'");
        check_piece(shard->second, name, tensor.dtype, piece);
      } catch (const Error& error) {
        damages.emplace_back(error.what());
      }
    }
  }
  return damages;
}

void export_safetensors(CheckpointReader& reader, const std::filesystem::path& folder,
                        const ExportOptions& options) {
  std::vector<SafetensorsPlan> plan;
  for (const auto& [name, tensor] : reader.manifest().tensors) {
    if (options.wanted ? !options.wanted(name) : is_moment(name) || is_method_parameter(name))
      continue;
    const DType dtype = tensor.dtype == DType::i32 ? DType::i32 : options.dtype;
    plan.push_back({name, to_element(dtype), tensor.shape});
  }
  require(!plan.empty(), ErrorKind::data, "checkpoint '", reader.folder().string(),
          "' has none of the tensors to be exported");
  write_safetensors_folder(
      folder, plan,
      [&](const SafetensorsPlan& tensor, SafetensorsSink& sink) {
        const auto change = options.changes.find(tensor.name);
        if (change == options.changes.end()) {
          export_tensor(reader, tensor, sink);
          return;
        }
        std::vector<float> values(static_cast<std::size_t>(element_count(tensor.shape)));
        reader.read(tensor.name, whole(tensor.shape), values.data());
        change->second(values);
        sink.put(values);
      },
      options.shard_bytes);
}

}  // namespace fathom::checkpoints
