#include "checkpoints/manifest.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "core/error.h"

namespace fathom::checkpoints {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "fathom-checkpoint";
constexpr int kVersion = 1;

DType parse_dtype(const std::string& name) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i32})
    if (name == to_string(dtype)) return dtype;
  fail(ErrorKind::io, "dtype '", name, "' is not one of f32, bf16, i32");
}

std::uint64_t parse_hex(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  require(code == std::errc() && end == text.data() + text.size() && text.size() == 16,
          ErrorKind::io, "checksum '", text, "' is not 16 hexadecimal digits");
  return value;
}

/// The checksum that a manifest carries is of its text without that one key.
std::uint64_t content_checksum(json content) {
  content.erase("xxh64");
  const std::string text = content.dump();
  return checksum(text.data(), text.size());
}

void check_files(const Manifest& manifest) {
  for (const auto& [name, bytes] : manifest.files)
    require(!name.empty() && name.find('/') == std::string::npos, ErrorKind::io, "file name '",
            name, "' is not a plain name");
  for (const auto& [name, tensor] : manifest.tensors)
    for (const PieceRecord& piece : tensor.pieces)
      require(manifest.files.contains(piece.file), ErrorKind::io, "tensor '", name,
              "' has a piece in '", piece.file, "', which is not listed");
}

Manifest from_json(const json& content) {
  require(content.is_object() && content.value("format", "") == kFormat, ErrorKind::io,
          "it is not a manifest of a Fathom checkpoint");
  const int version = content.at("version").get<int>();
  require(version == kVersion, ErrorKind::config, "it has version ", version,
          "; this program reads version ", kVersion,
          ": use the fathom that wrote it, or a newer one");
  require(content_checksum(content) == parse_hex(content.at("xxh64").get<std::string>()),
          ErrorKind::io, "its content does not match its own checksum");
  Manifest manifest;
  manifest.run = {content.at("step").get<std::int64_t>(), content.at("state").dump(),
                  content.at("config").get<std::string>(), content.at("grid").get<std::string>(),
                  content.at("program").get<std::string>()};
  manifest.files = content.at("files").get<std::map<std::string, std::uint64_t>>();
  manifest.tensors = tensors_from_json(content.at("tensors"));
  return manifest;
}

}  // namespace

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::uint64_t checksum(const void* data, std::size_t bytes) {
  return XXH64(data, bytes, 0);
}

json tensors_to_json(const std::map<std::string, TensorRecord>& tensors) {
  json table = json::object();
  for (const auto& [name, tensor] : tensors) {
    json pieces = json::array();
    for (const PieceRecord& piece : tensor.pieces)
      pieces.push_back({{"file", piece.file},
                        {"dataset", piece.dataset},
                        {"offset", piece.box.offset},
                        {"extent", piece.box.extent},
                        {"xxh64", hex(piece.xxh64)}});
    table[name] = {{"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}, {"pieces", pieces}};
  }
  return table;
}

std::map<std::string, TensorRecord> tensors_from_json(const json& table) {
  std::map<std::string, TensorRecord> tensors;
  for (const auto& [name, value] : table.items()) {
    TensorRecord tensor{
        parse_dtype(value.at("dtype").get<std::string>()), value.at("shape").get<Shape>(), {}};
    for (const json& piece : value.at("pieces"))
      tensor.pieces.push_back({{piece.at("offset").get<Shape>(), piece.at("extent").get<Shape>()},
                               piece.at("file").get<std::string>(),
                               piece.at("dataset").get<std::string>(),
                               parse_hex(piece.at("xxh64").get<std::string>())});
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

std::string to_text(const Manifest& manifest) {
  json state;
  try {
    state = json::parse(manifest.run.state);
  } catch (const json::exception& error) {
    FATHOM_CHECK(false, "the run's state is not JSON: ", error.what());
  }
  json content = {{"format", kFormat},
                  {"version", kVersion},
                  {"step", manifest.run.step},
                  {"state", state},
                  {"config", manifest.run.config},
                  {"grid", manifest.run.grid},
                  {"program", manifest.run.program},
                  {"files", manifest.files},
                  {"tensors", tensors_to_json(manifest.tensors)}};
  content["xxh64"] = hex(content_checksum(content));
  return content.dump() + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  try {
    Manifest manifest = from_json(json::parse(text));
    check_files(manifest);
    require_tiling(manifest.tensors, ErrorKind::io, "");
    return manifest;
  } catch (const json::exception& error) {
    fail(ErrorKind::io, "'", path, "' is damaged: ", error.what());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::config) fail(error.kind(), "'", path, "': ", error.what());
    fail(ErrorKind::io, "'", path, "' is damaged: ", error.what());
  }
}

void merge_tensors(std::map<std::string, TensorRecord>& into,
                   const std::map<std::string, TensorRecord>& from) {
  for (const auto& [name, tensor] : from) {
    const auto [at, is_new] = into.emplace(name, tensor);
    if (is_new) continue;
    TensorRecord& known = at->second;
    FATHOM_CHECK(known.dtype == tensor.dtype && known.shape == tensor.shape, "tensor '", name,
                 "' is ", to_string(known.dtype), " ", to_string(known.shape), " on one rank and ",
                 to_string(tensor.dtype), " ", to_string(tensor.shape), " on another");
    known.pieces.insert(known.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
  }
}

void require_tiling(const std::map<std::string, TensorRecord>& tensors, ErrorKind kind,
                    const std::string& where) {
  for (const auto& [name, tensor] : tensors) {
    std::vector<Rectangle> boxes;
    for (const PieceRecord& piece : tensor.pieces) boxes.push_back(piece.box);
    const std::string fault = tiling_fault(tensor.shape, boxes);
    require(fault.empty(), kind, where, "tensor '", name, "' of shape ", to_string(tensor.shape),
            ": ", fault);
  }
}

}  // namespace fathom::checkpoints
