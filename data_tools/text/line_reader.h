#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "data/fingerprint.h"

namespace fathom::data_tools {

/// Reads a file line by line and hashes every byte on the way.
class LineReader {
 public:
  /// `hash` receives the file's bytes as they are read. Throws Error(io) if it cannot be opened.
  LineReader(std::filesystem::path path, data::Fingerprint& hash);

  /// The next line with its line break, if any; a byte-order mark in front of the file is left out.
  /// False at the end. Throws Error(io) on a read error.
  bool next(std::string& line);

  /// Number of the line last read, from 1.
  std::int64_t line_number() const { return number_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::ifstream stream_;
  data::Fingerprint& hash_;
  std::int64_t number_ = 0;
};

/// The line without "\n" or "\r\n".
std::string_view without_break(std::string_view line);

/// Whether only white space (ASCII) is there.
bool is_blank(std::string_view line);

/// Byte offset of the first invalid UTF-8 sequence, or npos.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace fathom::data_tools
