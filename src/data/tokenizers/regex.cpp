#include "data/tokenizers/regex.h"

#include <cctype>

#include "core/error.h"

namespace fathom::data {
namespace {

// PCRE2's own \s also takes in U+180E, which left White_Space with Unicode 6.3.
constexpr const char* kWhiteSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

/// Tokenizer files are written for Oniguruma. What means the same in PCRE2 is passed on, \s and \S
/// are written out as sets, and what would silently mean something else is refused.
class Translator {
 public:
  Translator(const std::string& pattern, const std::string& where)
      : pattern_(pattern), where_(where) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        class_member(c);
      } else {
        if (c == '^' || c == '$') refuse(c, " (line and text anchors differ)");
        if (c == '[') open_class();
        copy(1);
      }
    }
    return out_;
  }

 private:
  void copy(std::size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += count;
  }

  bool follows(std::string_view text) const {
    return std::string_view(pattern_).substr(at_).starts_with(text);
  }

  void open_class() {
    in_class_ = true;
    if (pattern_.compare(at_ + 1, 1, "^") == 0) copy(1);
    if (pattern_.compare(at_ + 1, 1, "]") == 0) refuse(']', " as the first in a class");
  }

  void class_member(char c) {
    if (c == '[' || follows("&&")) refuse(c, " inside a class");
    if (c == ']') in_class_ = false;
    copy(1);
  }

  void escape() {
    const char c = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\\';
    if (c == 's' || c == 'S') {
      if (c == 'S' && in_class_) refuse("\\S", " inside a class");
      out_ += in_class_ ? kWhiteSpace : str(c == 's' ? "[" : "[^", kWhiteSpace, ']');
      at_ += 2;
      return;
    }
    const bool named = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (named && std::string_view("dDpPnrtx").find(c) == std::string_view::npos) {
      refuse(str('\\', c), "");
    }
    copy(2);
  }

  template <typename What>
  [[noreturn]] void refuse(const What& what, const char* why) const {
    fail(ErrorKind::data, where_, ": the pattern '", pattern_, "' has ", what, why,
         ", which is not supported");
  }

  const std::string& pattern_;
  const std::string& where_;
  std::string out_;
  std::size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

Regex::Regex(const std::string& pattern, const std::string& where)
    : pattern_(pattern), code_(Translator(pattern, where).run(), where) {}

void Regex::isolate(std::string_view text, std::uint32_t offset, std::vector<Slice>& pieces) const {
  const auto piece = [&](std::size_t begin, std::size_t end) {
    if (begin == end) return;
    pieces.push_back(
        {offset + static_cast<std::uint32_t>(begin), offset + static_cast<std::uint32_t>(end)});
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const auto match = code_.find(text, at);
    if (!match) break;
    piece(at, match->begin);
    piece(match->begin, match->end);
    at = match->end;
  }
  piece(at, text.size());
}

}  // namespace fathom::data
