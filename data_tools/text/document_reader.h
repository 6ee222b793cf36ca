#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "data_tools/text/line_reader.h"

namespace fathom::data_tools {

/// A stretch of a document, small enough to be held in memory.
struct DocumentPiece {
  std::string text;
  std::int64_t line = 0;  ///< of its first character, from 1
  bool begins = false;    ///< it is the first of its document
  bool ends = false;      ///< it is the last; then the text may be empty
};

/// Reads a text file as documents and hands them out in pieces. A line that equals `delimiter`
/// (blank, if that is empty) separates documents and belongs to none; the line break before it is
/// dropped. Blank documents are left out. Without a delimiter the file is one document, byte for
/// byte.
void read_documents(LineReader& lines, const std::optional<std::string>& delimiter,
                    std::size_t piece_bytes, const std::function<void(DocumentPiece)>& take);

}  // namespace fathom::data_tools
