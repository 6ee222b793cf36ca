#include "data/spans/english/text_tokenizer.h"

#include <algorithm>

#include "data/spans/english/characters.h"
#include "data/tokenizers/unicode.h"

namespace fathom::data::spans::english {
namespace {

constexpr std::size_t kMaxCacheBytes = 16 << 20;

std::uint32_t size_of(std::string_view text) {
  return static_cast<std::uint32_t>(text.size());
}

}  // namespace

/// What was taken off both ends of a chunk, in the order of taking.
struct TextTokenizer::Affixes {
  std::vector<std::string_view> prefixes, suffixes;
};

void TextTokenizer::Cache::trim() {
  if (bytes_ <= kMaxCacheBytes) return;
  chunks_.clear();
  lexemes_.clear();
  bytes_ = 0;
}

TextTokenizer::TextTokenizer(const ModelFile& model, const Lexicon& lexicon)
    : lexicon_(lexicon),
      prefix_(model.prefix_pattern, "the span model's prefixes"),
      suffix_(model.suffix_pattern, "the span model's suffixes"),
      infix_(model.infix_pattern, "the span model's infixes"),
      url_(model.url_pattern, "the span model's URLs") {
  for (const auto& [text, tokens] : model.special_cases) add_special_case(text, tokens);
  Cache cache;
  for (const auto& [text, tokens] : model.special_cases) add_sequence(text, cache);
}

std::vector<Word> TextTokenizer::tokenize(std::string_view text, Cache& cache) const {
  return replace_sequences(text, split(text, true, cache));
}

// White space and the rest take turns as chunks. A single ' ' after a chunk of the rest becomes its
// last token's flag; white space beyond that is a chunk like any other.
std::vector<Word> TextTokenizer::split(std::string_view text, bool with_special_cases,
                                       Cache& cache) const {
  std::vector<Word> words;
  words.reserve(text.size() / 4 + 1);
  const auto add = [&](std::size_t begin, std::size_t end) {
    const std::string_view chunk = text.substr(begin, end - begin);
    auto at = static_cast<std::uint32_t>(begin);
    for (const Piece& piece : split_chunk(chunk, with_special_cases, cache)) {
      words.push_back({piece.lexeme, at, at + piece.length, false});
      at += piece.length;
    }
  };
  if (text.empty()) return words;
  bool in_space = is_space(code_point_at(text, 0).value);
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (is_space(c.value) != in_space) {
      if (start < at) add(start, at);
      start = at;
      if (c.value == U' ') {
        words.back().space_after = true;
        start = at + 1;
      }
      in_space = !in_space;
    }
    at += c.length;
  }
  if (start < text.size()) add(start, text.size());
  return words;
}

const TextTokenizer::Pieces* TextTokenizer::special_case(std::string_view chunk) const {
  // Long runs of punctuation are peeled one by one: hashing the rest each time would be quadratic.
  if (chunk.size() > longest_special_case_) return nullptr;
  const auto found = special_cases_.find(chunk);
  return found != special_cases_.end() ? &found->second : nullptr;
}

TextTokenizer::Piece TextTokenizer::piece(std::string_view form, Cache& cache) const {
  auto found = cache.lexemes_.find(form);
  if (found == cache.lexemes_.end()) {
    found = cache.lexemes_.emplace(form, lexicon_.make(form)).first;
    cache.bytes_ += sizeof *found + form.size();
  }
  return {&found->second, size_of(form)};
}

TextTokenizer::Pieces TextTokenizer::split_chunk(std::string_view chunk, bool with_special_cases,
                                                 Cache& cache) const {
  if (with_special_cases) {
    if (const Pieces* special = special_case(chunk)) return *special;
    const auto known = cache.chunks_.find(chunk);
    if (known != cache.chunks_.end()) return known->second;
  }
  Affixes affixes;
  const std::string_view middle = peel(chunk, with_special_cases, affixes);
  Pieces out;
  for (const std::string_view prefix : affixes.prefixes) out.push_back(piece(prefix, cache));
  if (!middle.empty()) split_middle(middle, with_special_cases, cache, out);
  for (std::size_t i = affixes.suffixes.size(); i-- > 0;)
    out.push_back(piece(affixes.suffixes[i], cache));
  if (with_special_cases) {
    cache.chunks_.emplace(chunk, out);
    cache.bytes_ += sizeof(std::string) + chunk.size() + sizeof out + out.size() * sizeof(Piece);
  }
  return out;
}

std::string_view TextTokenizer::find_prefix(std::string_view chunk) const {
  const auto match = prefix_.find(chunk);
  return match ? chunk.substr(match->begin, match->end - match->begin) : std::string_view{};
}

std::string_view TextTokenizer::find_suffix(std::string_view chunk) const {
  // No suffix but a run of dots is longer than a few characters, so the search begins near the end;
  // peeling a long run of punctuation would take quadratic time otherwise.
  constexpr std::size_t kWindow = 128;
  const std::size_t dots = chunk.find_last_not_of('.') + 1;  // 0 if there is nothing else
  std::size_t from = std::min(dots, chunk.size() - std::min(chunk.size(), kWindow));
  while (from > 0 && (chunk[from] & 0xC0) == 0x80) --from;
  const auto match = suffix_.find(chunk, from);
  return match ? chunk.substr(match->begin, match->end - match->begin) : std::string_view{};
}

// Takes prefixes and suffixes off a chunk until it is an exception or nothing more can be taken.
std::string_view TextTokenizer::peel(std::string_view chunk, bool with_special_cases,
                                     Affixes& affixes) const {
  const auto special = [&](std::string_view text) {
    return with_special_cases && !text.empty() && special_case(text) != nullptr;
  };
  std::size_t last_size = 0;
  while (!chunk.empty() && chunk.size() != last_size) {
    if (special(chunk)) break;
    last_size = chunk.size();
    const std::string_view prefix = find_prefix(chunk);
    const std::string_view after = chunk.substr(prefix.size());
    if (!prefix.empty() && special(after)) {
      affixes.prefixes.push_back(prefix);
      return after;
    }
    const std::string_view suffix = find_suffix(after);
    const std::string_view before = chunk.substr(0, chunk.size() - suffix.size());
    if (!suffix.empty() && special(before)) {
      affixes.suffixes.push_back(suffix);
      return before;
    }
    if (!prefix.empty()) affixes.prefixes.push_back(prefix);
    if (!suffix.empty()) affixes.suffixes.push_back(suffix);
    chunk = after.substr(0, after.size() - suffix.size());
  }
  return chunk;
}

// What is left between the affixes: an exception, a URL, or words joined by infixes.
void TextTokenizer::split_middle(std::string_view middle, bool with_special_cases, Cache& cache,
                                 Pieces& out) const {
  const Pieces* special = with_special_cases ? special_case(middle) : nullptr;
  if (special != nullptr) {
    out.insert(out.end(), special->begin(), special->end());
    return;
  }
  if (url_.find(middle)) {
    out.push_back(piece(middle, cache));
    return;
  }
  std::size_t start = 0;
  for (std::size_t from = 0; from < middle.size();) {
    const auto infix = infix_.find(middle, from);
    if (!infix) break;
    from = infix->end;
    if (infix->begin == 0) continue;
    if (infix->begin != start)
      out.push_back(piece(middle.substr(start, infix->begin - start), cache));
    out.push_back(piece(middle.substr(infix->begin, infix->end - infix->begin), cache));
    start = infix->end;
  }
  if (start < middle.size()) out.push_back(piece(middle.substr(start), cache));
}

}  // namespace fathom::data::spans::english
