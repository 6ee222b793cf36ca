#include "data_tools/text/document_reader.h"

#include <utility>

namespace fathom::data_tools {
namespace {

bool is_delimiter(std::string_view line, const std::optional<std::string>& delimiter) {
  if (!delimiter) return false;
  return delimiter->empty() ? is_blank(line) : without_break(line) == *delimiter;
}

bool is_printable_ascii(char c) {
  return c > ' ' && c < '\x7f';
}

// No byte-level pre-tokenizer joins a line break with a printable character on its right, nor makes
// a line break after a printable character depend on what follows it.
bool may_cut(const std::string& text, std::string_view next_line) {
  return text.size() >= 2 && text.back() == '\n' && is_printable_ascii(text[text.size() - 2]) &&
         !next_line.empty() && is_printable_ascii(next_line.front());
}

// Collects lines into pieces of one document after another.
class Collector {
 public:
  Collector(std::size_t piece_bytes, const std::function<void(DocumentPiece)>& take)
      : piece_bytes_(piece_bytes), take_(take) {}

  void add(std::string_view line, std::int64_t number) {
    if (piece_.text.size() >= piece_bytes_ && may_cut(piece_.text, line)) hand_over(false);
    if (piece_.text.empty()) piece_.line = number;
    piece_.text += line;
  }

  void end_document(bool drop_break) {
    if (drop_break) piece_.text.resize(without_break(piece_.text).size());
    if (!begins_ || !is_blank(piece_.text)) hand_over(true);
    piece_.text.clear();
    begins_ = true;
  }

 private:
  void hand_over(bool ends) {
    piece_.begins = std::exchange(begins_, false);
    piece_.ends = ends;
    take_(std::exchange(piece_, {}));
  }

  std::size_t piece_bytes_;
  const std::function<void(DocumentPiece)>& take_;
  DocumentPiece piece_;
  bool begins_ = true;
};

}  // namespace

void read_documents(LineReader& lines, const std::optional<std::string>& delimiter,
                    std::size_t piece_bytes, const std::function<void(DocumentPiece)>& take) {
  Collector collector(piece_bytes, take);
  std::string line;
  while (lines.next(line)) {
    if (is_delimiter(line, delimiter)) {
      collector.end_document(true);
    } else {
      collector.add(line, lines.line_number());
    }
  }
  collector.end_document(delimiter.has_value());
}

}  // namespace fathom::data_tools
