#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/spans/token_spans.h"
#include "data/tokenizers/tokenizer.h"

namespace fathom::data::spans::test {

/// A tokenizer that is a table: id i spells pieces[i]; the last one is a control token.
class PieceTokenizer : public Tokenizer {
 public:
  explicit PieceTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
    pieces_.push_back("<|end|>");
  }

  std::int32_t control() const { return vocab_size() - 1; }

  std::string token_bytes(std::int32_t id) const override {
    require(id >= 0 && id < vocab_size(), ErrorKind::data, "id ", id);
    return pieces_[static_cast<std::size_t>(id)];
  }
  std::int32_t vocab_size() const override { return static_cast<std::int32_t>(pieces_.size()); }
  bool is_special(std::int32_t id) const override { return id == control(); }
  std::string fingerprint() const override { return "1111111111111111"; }

  Encoding encode(std::string_view, bool) const override { return {}; }
  std::string decode(std::span<const std::int32_t>, bool) const override { return {}; }
  std::optional<std::int32_t> token_id(std::string_view) const override { return {}; }
  std::span<const std::int32_t> prefix_ids() const override { return {}; }
  std::span<const std::int32_t> suffix_ids() const override { return {}; }
  std::optional<std::int32_t> bos_id() const override { return {}; }
  std::optional<std::int32_t> eos_id() const override { return control(); }
  const std::string& chat_template() const override { return template_; }

 private:
  std::vector<std::string> pieces_;
  std::string template_;
};

inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (static_cast<unsigned char>(c) > 127);
}

/// In place of the extractor: a word is a run of letters, or one other byte that is not space;
/// phrases are words 0-2, 1-3, 3-5, 4-6, ... of the text, by turns noun and verb, so that
/// neighbours overlap in part.
inline TextSpans find_plain(std::string_view text) {
  TextSpans spans;
  for (std::uint32_t at = 0; at < text.size();) {
    std::uint32_t end = at;
    while (end < text.size() && is_letter(text[end])) ++end;
    if (end == at) ++end;
    const bool space = text[at] == ' ' || text[at] == '\n';
    if (!space) spans.words.push_back({at, end});
    at = end;
  }
  for (std::size_t i = 0; i + 2 < spans.words.size(); i += i % 3 == 0 ? 1 : 2) {
    spans.phrases.push_back({{spans.words[i].begin, spans.words[i + 2].end},
                             i % 3 == 0 ? PhraseKind::noun : PhraseKind::verb});
  }
  return spans;
}

inline std::vector<TextSpans> find_each_plain(std::span<const std::string_view> texts) {
  std::vector<TextSpans> result;
  for (const std::string_view text : texts) result.push_back(find_plain(text));
  return result;
}

}  // namespace fathom::data::spans::test
