#include "data/spans/english/lexicon.h"

#include <algorithm>

#include "core/error.h"
#include "data/spans/english/characters.h"
#include "data/tokenizers/unicode.h"

namespace fathom::data::spans::english {
namespace {

std::string_view first_character(std::string_view text) {
  return text.substr(0, code_point_at(text, 0).length);
}

std::string_view last_characters(std::string_view text, int count) {
  std::size_t at = text.size();
  while (count-- > 0 && at > 0) at = character_before(text, at);
  return text.substr(at);
}

std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

char32_t shape_character(char32_t value) {
  if (is_alpha(value)) return is_upper(value) ? U'X' : U'x';
  return is_digit(value) ? U'd' : value;
}

}  // namespace

std::string shape_of(std::string_view form) {
  constexpr std::size_t kLong = 100, kRun = 4;
  if (character_count(form) >= kLong) return "LONG";
  std::string shape;
  char32_t last = 0;
  std::size_t run = 0;
  for (std::size_t at = 0; at < form.size();) {
    const CodePoint c = code_point_at(form, at);
    const char32_t value = shape_character(c.value);
    run = at != 0 && value == last ? run + 1 : 0;
    if (run < kRun) append_utf8(shape, value);
    last = value;
    at += c.length;
  }
  return shape;
}

bool is_all_space(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (!is_space(c.value)) return false;
    at += c.length;
  }
  return !text.empty();
}

Lexicon::Lexicon(const ModelFile& model) : ids_(model.symbols), seeds_(model.seeds) {
  for (std::size_t i = 0; i < table_rows_.size(); ++i) {
    const std::uint64_t rows = model.embed[i].shape[0];
    require(rows > 0 && rows <= 65536, ErrorKind::data, "an embedding table of ", rows,
            " rows; 1 to 65536 are supported");
    table_rows_[i] = static_cast<std::uint32_t>(rows);
  }
  // The package's own table comes before the language's.
  for (const auto& [form, norm] : model.lexeme_norms) norms_.emplace(form, ids_(norm));
  for (const auto& [form, norm] : model.base_norms) norms_.emplace(ids_(form), ids_(norm));
}

std::array<std::uint16_t, 4> Lexicon::rows(std::size_t table, std::uint64_t value) const {
  const Words4 hash = murmur3_128(value, seeds_[table]);
  std::array<std::uint16_t, 4> out;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::uint16_t>(hash.word[i] % table_rows_[table]);
  return out;
}

void Lexicon::set(Lexeme& lexeme, Lexeme::Feature feature, std::uint64_t value) const {
  lexeme.feature[feature] = value;
  lexeme.rows[feature] = rows(feature, value);
}

Lexeme Lexicon::make(std::string_view form) const {
  FATHOM_CHECK(!form.empty(), "a lexeme of no characters");
  Lexeme lexeme;
  lexeme.orth = ids_(form);
  lexeme.lower = ids_(lower(form));
  lexeme.is_space = is_all_space(form);
  const auto norm = norms_.find(lexeme.orth);
  set(lexeme, Lexeme::norm, norm != norms_.end() ? norm->second : lexeme.lower);
  set(lexeme, Lexeme::prefix, ids_(first_character(form)));
  set(lexeme, Lexeme::suffix, ids_(last_characters(form, 3)));
  set(lexeme, Lexeme::shape, ids_(shape_of(form)));
  return lexeme;
}

Lexeme Lexicon::make(std::string_view form, std::string_view norm) const {
  Lexeme lexeme = make(form);
  set(lexeme, Lexeme::norm, ids_(norm));
  return lexeme;
}

}  // namespace fathom::data::spans::english
