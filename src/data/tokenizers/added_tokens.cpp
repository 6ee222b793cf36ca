#include "data/tokenizers/added_tokens.h"

#include <algorithm>

#include "data/tokenizers/unicode.h"

namespace fathom::data {
namespace {

bool touches_word(std::string_view text, std::size_t begin, std::size_t end) {
  const bool before =
      begin > 0 && is_word_character(code_point_at(text, character_before(text, begin)).value);
  return before || (end < text.size() && is_word_character(code_point_at(text, end).value));
}

/// Start of the white space that ends at `at`, not before `floor`.
std::size_t space_before(std::string_view text, std::size_t at, std::size_t floor) {
  while (at > floor) {
    const std::size_t previous = character_before(text, at);
    if (!is_white_space(code_point_at(text, previous).value)) break;
    at = previous;
  }
  return at;
}

std::size_t space_after(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const CodePoint next = code_point_at(text, at);
    if (!is_white_space(next.value)) break;
    at += next.length;
  }
  return at;
}

Slice slice(std::size_t begin, std::size_t end) {
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

std::uint64_t edge(std::uint32_t node, char byte) {
  return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
}

}  // namespace

void AddedTokenMatcher::add(const AddedToken& token, std::string_view spelling) {
  if (spelling.empty()) return;
  first_bytes_[static_cast<unsigned char>(spelling[0])] = true;
  std::uint32_t node = 0;
  for (const char byte : spelling) {
    const auto next = static_cast<std::uint32_t>(ends_.size());
    const auto [found, fresh] = edges_.emplace(edge(node, byte), next);
    if (fresh) ends_.push_back(-1);
    node = found->second;
  }
  if (ends_[node] < 0) ends_[node] = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
}

AddedTokenMatcher::Match AddedTokenMatcher::longest_at(std::string_view text,
                                                       std::size_t at) const {
  Match longest;
  std::uint32_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const auto found = edges_.find(edge(node, text[i]));
    if (found == edges_.end()) break;
    node = found->second;
    if (ends_[node] >= 0) {
      longest = {&tokens_[static_cast<std::size_t>(ends_[node])],
                 static_cast<std::uint32_t>(i + 1 - at)};
    }
  }
  return longest;
}

std::vector<AddedTokenMatcher::Stretch> AddedTokenMatcher::cut(std::string_view text,
                                                               bool parse_special) const {
  std::vector<Stretch> stretches;
  std::size_t done = 0;  // everything before is in a stretch
  for (std::size_t at = 0; at < text.size();) {
    if (!first_bytes_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const Match match = longest_at(text, at);
    if (!match.token) {
      ++at;
      continue;
    }
    const AddedToken& token = *match.token;
    std::size_t begin = at;
    std::size_t end = at + match.length;
    at = end;
    if (token.special && !parse_special) continue;
    if (token.single_word && touches_word(text, begin, end)) continue;
    begin = token.lstrip ? space_before(text, begin, done) : std::max(begin, done);
    if (token.rstrip) end = space_after(text, end);
    if (begin >= end) continue;
    if (done < begin) stretches.push_back({nullptr, slice(done, begin)});
    stretches.push_back({&token, slice(begin, end)});
    done = end;
  }
  if (done < text.size()) stretches.push_back({nullptr, slice(done, text.size())});
  return stretches;
}

}  // namespace fathom::data
