#include <algorithm>
#include <optional>
#include <utf8proc.h>

#include "core/error.h"
#include "data/tokenizers/normalizer.h"
#include "data/tokenizers/unicode.h"

namespace fathom::data {
namespace {

/// Below this every character is a starter, is its own form C and never joins a character in front.
constexpr char32_t kFirstCombining = 0x300;

/// A character of the result. `change` says where it comes from: 0, one old character; +1, split
/// off the one before; -n, one old character that swallowed the n after it.
struct Part {
  char32_t value = 0;
  int change = 0;
  int combining_class = 0;
};

int combining_class(char32_t value) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(value))->combining_class;
}

/// Canonical decomposition of the whole text, each run of combining marks in canonical order.
std::vector<Part> decompose(const std::string& text) {
  std::vector<Part> parts;
  parts.reserve(text.size());
  std::size_t run_begin = 0;
  const auto sort_run = [&] {
    std::stable_sort(
        parts.begin() + static_cast<std::ptrdiff_t>(run_begin), parts.end(),
        [](const Part& a, const Part& b) { return a.combining_class < b.combining_class; });
  };
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint old = code_point_at(text, at);
    at += old.length;
    utf8proc_int32_t values[4] = {static_cast<utf8proc_int32_t>(old.value)};
    utf8proc_ssize_t count = 1;
    if (old.value >= 0xC0) {
      count = utf8proc_decompose_char(values[0], values, 4, UTF8PROC_DECOMPOSE, nullptr);
      FATHOM_CHECK(count >= 1 && count <= 4, "decomposition of code point ",
                   static_cast<std::uint32_t>(old.value));
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const auto value = static_cast<char32_t>(values[i]);
      const Part part{value, i > 0, value < kFirstCombining ? 0 : combining_class(value)};
      if (part.combining_class == 0) {
        sort_run();
        run_begin = parts.size() + 1;
      }
      parts.push_back(part);
    }
  }
  sort_run();
  return parts;
}

/// The primary composite of a starter and the character after it.
std::optional<char32_t> compose(char32_t first, char32_t second) {
  if (second < kFirstCombining) return std::nullopt;
  utf8proc_int32_t pair[2] = {static_cast<utf8proc_int32_t>(first),
                              static_cast<utf8proc_int32_t>(second)};
  constexpr auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  if (utf8proc_normalize_utf32(pair, 2, options) != 1) return std::nullopt;
  return static_cast<char32_t>(pair[0]);
}

/// Canonical composition (UAX 15): a mark joins the last starter unless a mark of the same or a
/// higher class stands between them.
std::vector<Part> recompose(const std::vector<Part>& parts) {
  std::vector<Part> result;
  result.reserve(parts.size());
  std::optional<std::size_t> starter;  // index in result
  for (const Part& part : parts) {
    if (starter) {
      const bool adjacent = *starter + 1 == result.size();
      const bool blocked = !adjacent && result.back().combining_class >= part.combining_class;
      Part& base = result[*starter];
      const auto joined = blocked ? std::nullopt : compose(base.value, part.value);
      if (joined) {
        base.value = *joined;
        base.change += part.change - 1;
        continue;
      }
    }
    if (part.combining_class == 0) starter = result.size();
    result.push_back(part);
  }
  return result;
}

class Nfc : public Normalizer {
 public:
  AlignedText apply(AlignedText text) const override {
    if (plain(text.text())) return text;
    AlignedTextBuilder builder(text);
    std::uint32_t at = 0;
    const auto skip = [&] { at += code_point_at(text.text(), at).length; };
    std::string bytes;
    for (const Part& part : recompose(decompose(text.text()))) {
      const std::uint32_t from = part.change > 0 && at > 0 ? at - 1 : at;
      const ByteRange source = text.source({from, from + 1});
      for (int i = part.change; i <= 0; ++i) skip();
      bytes.clear();
      append_utf8(bytes, part.value);
      builder.put(bytes, source);
    }
    return std::move(builder).build();
  }

  std::string describe() const override { return "nfc"; }

 private:
  static bool plain(const std::string& text) {
    // U+0300 is CC 80: a lead byte below CC means a character below U+0300.
    return std::all_of(text.begin(), text.end(),
                       [](char byte) { return static_cast<unsigned char>(byte) < 0xCC; });
  }
};

}  // namespace

std::unique_ptr<const Normalizer> make_nfc() {
  return std::make_unique<Nfc>();
}

}  // namespace fathom::data
