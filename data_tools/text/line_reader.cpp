#include "data_tools/text/line_reader.h"

#include <cerrno>
#include <cstring>
#include <utf8proc.h>
#include <utility>

#include "core/error.h"

namespace fathom::data_tools {

LineReader::LineReader(std::filesystem::path path, data::Fingerprint& hash)
    : path_(std::move(path)), hash_(hash) {
  require(!std::filesystem::is_directory(path_), ErrorKind::io, path_.string(),
          ": is a folder; a file expected");
  stream_.open(path_, std::ios::binary);
  require(stream_.is_open(), ErrorKind::io, path_.string(), ": ", std::strerror(errno));
}

bool LineReader::next(std::string& line) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (!std::getline(stream_, line)) {
    require(!stream_.bad(), ErrorKind::io, path_.string(), ": read error after line ", number_,
            ": ", std::strerror(errno));
    return false;
  }
  if (!stream_.eof()) line += '\n';
  hash_.update(line);
  if (++number_ == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
  return true;
}

std::string_view without_break(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\n\r\v\f") == std::string_view::npos;
}

std::size_t find_invalid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t code_point = 0;
    const auto left = static_cast<utf8proc_ssize_t>(text.size() - at);
    const utf8proc_ssize_t used = utf8proc_iterate(bytes + at, left, &code_point);
    if (used <= 0) return at;
    at += static_cast<std::size_t>(used);
  }
  return std::string_view::npos;
}

}  // namespace fathom::data_tools
