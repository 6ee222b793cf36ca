#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/safetensors.h"
#include "core/error.h"
#include "core/files.h"

namespace fathom::checkpoints {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the format's own limit

/// Parses JSON and refuses a key that occurs twice in the outermost object, which JSON libraries
/// otherwise resolve silently.
json parse_header(const std::string& text, const std::string& file) {
  std::set<std::string> keys;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == 1)
      require(keys.insert(value.get<std::string>()).second, ErrorKind::data, "'", file,
              "': tensor '", value.get<std::string>(), "' occurs twice");
    return true;
  };
  try {
    json header = json::parse(text, watch);
    require(header.is_object(), ErrorKind::data, "'", file, "': the header is not a JSON object");
    return header;
  } catch (const json::exception& error) {
    fail(ErrorKind::data, "'", file, "': the header is not valid JSON: ", error.what());
  }
}

std::uint64_t read_header_length(const MappedFile& file) {
  const auto bytes = file.bytes();
  require(bytes.size() >= 8, ErrorKind::data, "'", file.path().string(), "' has ", bytes.size(),
          " bytes: too short for a safetensors file");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  require(length <= kLongestHeader && length <= bytes.size() - 8, ErrorKind::data, "'",
          file.path().string(), "': header of ", length, " bytes in a file of ", bytes.size(),
          ": not a safetensors file, or truncated");
  return length;
}

/// Bytes that a tensor of this shape takes; Error(data) on a negative extent or overflow.
std::uint64_t bytes_of(const Shape& shape, Element element, const std::string& where) {
  std::uint64_t bytes = size_of(element);
  for (const auto extent : shape) {
    const auto wide = static_cast<std::uint64_t>(extent);
    require(extent >= 0 && (wide == 0 || bytes <= std::numeric_limits<std::uint64_t>::max() / wide),
            ErrorKind::data, where, ": impossible shape ", to_string(shape));
    bytes *= wide;
  }
  return bytes;
}

SafetensorsEntry parse_entry(const std::string& name, const json& value, const std::string& file,
                             std::uint64_t data_begin, std::uint64_t data_bytes) {
  const std::string where = str("'", file, "': tensor '", name, "'");
  std::string dtype;
  Shape shape;
  std::uint64_t begin = 0, end = 0;
  try {
    dtype = value.at("dtype").get<std::string>();
    shape = value.at("shape").get<Shape>();
    const json& offsets = value.at("data_offsets");
    require(
        offsets.size() == 2 && offsets[0].is_number_unsigned() && offsets[1].is_number_unsigned(),
        ErrorKind::data, where, ": data_offsets ", offsets.dump(),
        "; two non-negative numbers are wanted");
    begin = offsets[0].get<std::uint64_t>();
    end = offsets[1].get<std::uint64_t>();
  } catch (const json::exception& error) {
    fail(ErrorKind::data, where, ": malformed entry: ", error.what());
  }
  const auto element = parse_element(dtype);
  require(element.has_value(), ErrorKind::data, where, ": element type '", dtype,
          "' is not one of F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL");
  const std::uint64_t bytes = bytes_of(shape, *element, where);
  require(begin <= end && end <= data_bytes, ErrorKind::data, where, ": bytes ", begin, " to ", end,
          " of ", data_bytes, ": the file is truncated or the header is wrong");
  require(end - begin == bytes, ErrorKind::data, where, ": ", end - begin, " bytes for ", dtype,
          " ", to_string(shape), ", which takes ", bytes);
  return {name, *element, shape, 0, data_begin + begin, bytes};
}

/// The spans must follow each other without overlap or gap, as the format asks.
void check_layout(std::vector<const SafetensorsEntry*> entries, std::uint64_t data_begin,
                  std::uint64_t file_bytes, const std::string& file) {
  std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->bytes) < std::pair(b->begin, b->bytes);
  });
  std::uint64_t next = data_begin;
  for (const auto* entry : entries) {
    require(entry->begin == next, ErrorKind::data, "'", file, "': tensor '", entry->name,
            entry->begin < next ? "' overlaps the one before it" : "' comes after a gap");
    next = entry->begin + entry->bytes;
  }
  require(next == file_bytes, ErrorKind::data, "'", file, "': ", file_bytes - next,
          " bytes behind the last tensor");
}

std::filesystem::path find_weights(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return path;
  for (const char* name :
       {"model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors"})
    if (std::filesystem::exists(path / name)) return path / name;
  fail(ErrorKind::io, "folder '", path.string(),
       "' has neither model.safetensors nor model.safetensors.index.json");
}

/// Up to three names that end in the same two words, to make a wrong prefix visible.
std::string similar_names(const std::map<std::string, SafetensorsEntry>& entries,
                          const std::string& name) {
  std::size_t dot = name.rfind('.');
  if (dot != std::string::npos && dot > 0) dot = name.rfind('.', dot - 1);
  const std::string tail = dot == std::string::npos ? name : name.substr(dot + 1);
  std::string found;
  int count = 0;
  for (const auto& [other, entry] : entries) {
    if (count < 3 && other.ends_with(tail)) {
      found += (count++ > 0 ? ", '" : "; it has '") + other + "'";
    }
  }
  return found;
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path)
    : source_(find_weights(path)) {
  if (source_.extension() == ".json") {
    add_indexed(source_);
  } else {
    add_file(source_);
  }
}

void SafetensorsReader::add_file(const std::filesystem::path& path) {
  const std::size_t index = files_.size();
  const MappedFile& file = files_.emplace_back(path);
  const std::string label = path.string();
  const std::uint64_t length = read_header_length(file);
  const auto* text = reinterpret_cast<const char*>(file.bytes().data()) + 8;
  const json header = parse_header(std::string(text, length), label);

  std::vector<const SafetensorsEntry*> of_file;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      require(value.is_object(), ErrorKind::data, "'", label, "': __metadata__ is not an object");
      for (const auto& [key, item] : value.items()) {
        require(item.is_string(), ErrorKind::data, "'", label, "': __metadata__ '", key,
                "' is not a text");
        metadata_[key] = item.get<std::string>();
      }
      continue;
    }
    SafetensorsEntry entry =
        parse_entry(name, value, label, 8 + length, file.bytes().size() - 8 - length);
    entry.file = index;
    const auto [at, is_new] = entries_.emplace(name, std::move(entry));
    require(is_new, ErrorKind::data, "'", label, "': tensor '", name, "' is also in '",
            files_[at->second.file].path().string(), "'");
    of_file.push_back(&at->second);
  }
  check_layout(std::move(of_file), 8 + length, file.bytes().size(), label);
}

void SafetensorsReader::add_indexed(const std::filesystem::path& index) {
  std::map<std::string, std::string> weight_map;
  try {
    weight_map = json::parse(files::read_text(index)).at("weight_map").get<decltype(weight_map)>();
  } catch (const json::exception& error) {
    fail(ErrorKind::data, "'", index.string(), "' is not a valid index: ", error.what());
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) {
    require(!file.empty() && file.find('/') == std::string::npos, ErrorKind::data, "'",
            index.string(), "': tensor '", tensor, "' is in '", file,
            "'; a file name without folders is wanted");
    names.insert(file);
  }
  for (const std::string& name : names) {
    require(std::filesystem::exists(index.parent_path() / name), ErrorKind::io, "'", index.string(),
            "' lists '", name, "', which is missing");
    add_file(index.parent_path() / name);
  }
  for (const auto& [tensor, file] : weight_map) {
    const auto at = entries_.find(tensor);
    require(at != entries_.end() && files_[at->second.file].path().filename() == file,
            ErrorKind::data, "'", index.string(), "' lists tensor '", tensor, "' in '", file,
            "', which does not have it");
  }
}

const SafetensorsEntry& SafetensorsReader::at(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    fail(ErrorKind::data, "'", source_.string(), "' has no tensor '", name, "'",
         similar_names(entries_, name));
  return found->second;
}

const SafetensorsEntry& SafetensorsReader::at(const std::string& name, const Shape& shape) const {
  const SafetensorsEntry& entry = at(name);
  require(entry.shape == shape, ErrorKind::data, "'", files_[entry.file].path().string(),
          "': tensor '", name, "' has shape ", to_string(entry.shape), ", the model wants ",
          to_string(shape));
  return entry;
}

std::span<const std::byte> SafetensorsReader::bytes(const std::string& name) const {
  const SafetensorsEntry& entry = at(name);
  return files_[entry.file].bytes().subspan(entry.begin, entry.bytes);
}

template <typename Convert, typename Out>
void SafetensorsReader::read_box(const std::string& name, const Rectangle& box, Out* out,
                                 Convert convert) const {
  const SafetensorsEntry& entry = at(name);
  const std::string file = files_[entry.file].path().string();
  require(is_floating(entry.element), ErrorKind::data, "'", file, "': tensor '", name, "' holds ",
          to_string(entry.element), "; a floating-point kind is wanted");
  require(lies_within(box, entry.shape), ErrorKind::data, "'", file, "': tensor '", name,
          "' of shape ", to_string(entry.shape), " has no part ", to_string(box));
  const std::byte* base = files_[entry.file].bytes().data() + entry.begin;
  const std::size_t size = size_of(entry.element);
  for_each_run(whole(entry.shape), box, [&](auto from, auto to, auto length) {
    convert(entry.element, base + static_cast<std::size_t>(from) * size,
            static_cast<std::size_t>(length), out + to);
  });
}

void SafetensorsReader::read(const std::string& name, const Rectangle& box, float* out) const {
  read_box(name, box, out, convert_to_f32);
}

void SafetensorsReader::read(const std::string& name, const Rectangle& box, bf16* out) const {
  read_box(name, box, out, convert_to_bf16);
}

std::vector<float> SafetensorsReader::read_f32(const std::string& name) const {
  const Shape& shape = at(name).shape;
  std::vector<float> out(static_cast<std::size_t>(element_count(shape)));
  read(name, whole(shape), out.data());
  return out;
}

std::vector<std::int64_t> SafetensorsReader::read_i64(const std::string& name) const {
  const SafetensorsEntry& entry = at(name);
  require(!is_floating(entry.element), ErrorKind::data, "'", files_[entry.file].path().string(),
          "': tensor '", name, "' holds ", to_string(entry.element), "; integers are wanted");
  std::vector<std::int64_t> out(static_cast<std::size_t>(element_count(entry.shape)));
  convert_to_i64(entry.element, bytes(name).data(), out.size(), out.data());
  return out;
}

}  // namespace fathom::checkpoints
