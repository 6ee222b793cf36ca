#define XXH_INLINE_ALL
#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>
#include <xxhash.h>

#include "core/error.h"
#include "data/tokenizers/tokenizer_spec.h"
#include "data/tokenizers/unicode.h"

namespace fathom::data {
namespace {

/// Spaces at the two ends of a token's string, in the spelling of the byte alphabet or plain.
struct EdgeSpaces {
  std::uint32_t leading = 0;
  std::uint32_t trailing = 0;
};

EdgeSpaces edge_spaces(const std::string& token) {
  constexpr char32_t spelt_space = 0x120;
  EdgeSpaces spaces;
  bool only_spaces = true;
  for (std::size_t at = 0; at < token.size();) {
    const CodePoint next = code_point_at(token, at);
    at += next.length;
    if (next.value == spelt_space || is_white_space(next.value)) {
      ++spaces.trailing;
      if (only_spaces) ++spaces.leading;
    } else {
      only_spaces = false;
      spaces.trailing = 0;
    }
  }
  return spaces;
}

/// The range less the white space that an added token has taken in.
ByteRange without_spaces(std::string_view text, ByteRange range) {
  while (range.begin < range.end) {
    const CodePoint first = code_point_at(text, range.begin);
    if (!is_white_space(first.value)) break;
    range.begin += first.length;
  }
  while (range.begin < range.end) {
    const std::size_t last = character_before(text, range.end);
    if (!is_white_space(code_point_at(text, last).value)) break;
    range.end = static_cast<std::uint32_t>(last);
  }
  return range;
}

/// The range less so many characters at its ends. Counted in characters, not bytes: a space that
/// the tokenizer put in front stands for the text's first character.
ByteRange without_ends(std::string_view text, ByteRange range, EdgeSpaces spaces) {
  for (; spaces.leading > 0 && range.begin < range.end; --spaces.leading) {
    range.begin += code_point_at(text, range.begin).length;
  }
  for (; spaces.trailing > 0 && range.begin < range.end; --spaces.trailing) {
    range.end = static_cast<std::uint32_t>(character_before(text, range.end));
  }
  return range;
}

/// Text -> added tokens and stretches between -> normalised -> words -> merges. One class for all
/// families: they differ in the parts.
class PipelineTokenizer : public Tokenizer {
 public:
  explicit PipelineTokenizer(TokenizerSpec spec);

  Encoding encode(std::string_view text, bool parse_special) const override;
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override;
  std::string token_bytes(std::int32_t id) const override;

  std::int32_t vocab_size() const override { return tokens_.size(); }
  std::optional<std::int32_t> token_id(std::string_view token) const override {
    return tokens_.find(token);
  }
  bool is_special(std::int32_t id) const override {
    check(id);
    return special_[static_cast<std::size_t>(id)];
  }
  std::span<const std::int32_t> prefix_ids() const override { return spec_.prefix; }
  std::span<const std::int32_t> suffix_ids() const override { return spec_.suffix; }
  std::optional<std::int32_t> bos_id() const override { return spec_.bos; }
  std::optional<std::int32_t> eos_id() const override { return spec_.eos; }
  std::string fingerprint() const override { return fingerprint_; }
  const std::string& chat_template() const override { return spec_.chat_template; }

 private:
  struct Work {
    BpeModel::Scratch scratch;
    std::vector<BpeModel::Token> tokens;
    Encoding encoding;
  };

  void encode_stretch(AlignedText text, bool parse_special, Work& work) const;
  void encode_words(WordList list, Work& work) const;
  void trim_offsets(std::string_view text, Encoding& encoding) const;
  void check(std::int32_t id) const;
  std::string make_fingerprint() const;

  TokenizerSpec spec_;
  TokenTable tokens_;
  BpeModel model_;
  std::vector<bool> special_;
  std::vector<bool> added_;
  std::vector<EdgeSpaces> edges_;
  AddedTokenMatcher raw_;
  AddedTokenMatcher normalized_;
  std::string fingerprint_;
};

PipelineTokenizer::PipelineTokenizer(TokenizerSpec spec)
    : spec_(std::move(spec)), tokens_(spec_.model.vocab), model_(spec_.model, spec_.where) {
  for (AddedToken& token : spec_.added) {
    tokens_.add(token.content, token.id, spec_.where);
    // Without a normalizer the two kinds are found alike.
    token.normalized = token.normalized && !spec_.normalizers.empty();
  }
  std::sort(spec_.added.begin(), spec_.added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  special_.resize(static_cast<std::size_t>(tokens_.size()));
  added_.resize(special_.size());
  for (const AddedToken& token : spec_.added) {
    special_[static_cast<std::size_t>(token.id)] = token.special;
    added_[static_cast<std::size_t>(token.id)] = true;
    if (!token.normalized) {
      raw_.add(token, token.content);
    } else {
      normalized_.add(token, normalize(spec_.normalizers, AlignedText(token.content, 0)).text());
    }
  }
  for (const auto* list : {&spec_.prefix, &spec_.suffix}) {
    for (const std::int32_t id : *list) check(id);
  }
  if (spec_.trim.enabled) {
    for (std::int32_t id = 0; id < tokens_.size(); ++id) edges_.push_back(edge_spaces(tokens_[id]));
  }
  fingerprint_ = make_fingerprint();
  // Only the model's own tables are needed from here on.
  spec_.model = {};
}

Encoding PipelineTokenizer::encode(std::string_view text, bool parse_special) const {
  require(text.size() < std::numeric_limits<std::int32_t>::max(), ErrorKind::data, "a text of ",
          text.size(), " bytes is too long for the tokenizer: at most 2 GiB");
  const auto invalid = find_invalid_utf8(text);
  require(!invalid, ErrorKind::data, "text is not valid UTF-8 at byte ", invalid.value_or(0));
  Work work;
  if (raw_.empty()) {
    encode_stretch(AlignedText(text, 0), parse_special, work);
  } else {
    for (const auto& [token, slice] : raw_.cut(text, parse_special)) {
      if (token) {
        work.encoding.ids.push_back(token->id);
        work.encoding.offsets.push_back({slice.begin, slice.end});
      } else {
        const auto part = text.substr(slice.begin, slice.end - slice.begin);
        encode_stretch(AlignedText(part, slice.begin), parse_special, work);
      }
    }
  }
  if (spec_.trim.enabled) trim_offsets(text, work.encoding);
  return std::move(work.encoding);
}

void PipelineTokenizer::encode_stretch(AlignedText text, bool parse_special, Work& work) const {
  text = normalize(spec_.normalizers, std::move(text));
  if (normalized_.empty()) return encode_words(WordList(std::move(text)), work);
  for (const auto& [token, slice] : normalized_.cut(text.text(), parse_special)) {
    if (token) {
      work.encoding.ids.push_back(token->id);
      work.encoding.offsets.push_back(text.source(slice));
    } else {
      encode_words(WordList(text.part(slice)), work);
    }
  }
}

void PipelineTokenizer::encode_words(WordList list, Work& work) const {
  for (const auto& step : spec_.pre_tokenizers) step->apply(list);
  const std::string_view text = list.text.text();
  for (const Slice word : list.words) {
    work.tokens.clear();
    model_.tokenize(text.substr(word.begin, word.end - word.begin), work.scratch, work.tokens);
    for (const auto& [id, slice] : work.tokens) {
      work.encoding.ids.push_back(id);
      work.encoding.offsets.push_back(
          list.text.source({word.begin + slice.begin, word.begin + slice.end}));
    }
  }
}

void PipelineTokenizer::trim_offsets(std::string_view text, Encoding& encoding) const {
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    ByteRange& range = encoding.offsets[i];
    const auto id = static_cast<std::size_t>(encoding.ids[i]);
    if (added_[id]) {
      range = without_spaces(text, range);
      continue;
    }
    auto [leading, trailing] = edges_[id];
    const bool first = i == 0 || range.begin == 0;
    // More than one were in the text, since none is put in front of a space.
    if (leading == 1 && first && spec_.trim.prefix_space) leading = 0;
    range = without_ends(text, range, {leading, trailing});
  }
}

std::string PipelineTokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::vector<std::string> pieces;
  for (const std::int32_t id : ids) {
    check(id);
    if (skip_special && special_[static_cast<std::size_t>(id)]) continue;
    if (!tokens_[id].empty()) pieces.push_back(tokens_[id]);
  }
  for (const auto& decoder : spec_.decoders) pieces = decoder->apply(std::move(pieces));
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

std::string PipelineTokenizer::token_bytes(std::int32_t id) const {
  check(id);
  std::string piece = tokens_[id];
  for (const auto& decoder : spec_.decoders) piece = decoder->bytes(std::move(piece));
  return piece;
}

void PipelineTokenizer::check(std::int32_t id) const {
  require(id >= 0 && id < tokens_.size(), ErrorKind::data, "token id ", id,
          " is outside the vocabulary of ", spec_.where, ": 0 to ", tokens_.size() - 1);
}

std::string PipelineTokenizer::make_fingerprint() const {
  std::string all;
  const auto field = [&](std::string_view text) {
    all.append(std::to_string(text.size())).append(" ").append(text);
  };
  for (std::int32_t id = 0; id < tokens_.size(); ++id) field(tokens_[id]);
  field(model_.describe());
  for (const AddedToken& token : spec_.added) {
    field(str(token.id, ' ', token.special, token.single_word, token.lstrip, token.rstrip,
              token.normalized));
  }
  for (const auto& step : spec_.normalizers) field(step->describe());
  for (const auto& step : spec_.pre_tokenizers) field(step->describe());
  for (const auto* list : {&spec_.prefix, &spec_.suffix}) {
    field(std::to_string(list->size()));
    for (const std::int32_t id : *list) field(std::to_string(id));
  }
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(XXH64(all.data(), all.size(), 0)));
  return digits;
}

}  // namespace

std::optional<std::int32_t> find_token(const TokenizerSpec& spec, std::string_view token) {
  for (const AddedToken& added : spec.added) {
    if (added.content == token) return added.id;
  }
  return spec.model.vocab.find(token);
}

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerSpec spec) {
  return std::make_unique<PipelineTokenizer>(std::move(spec));
}

}  // namespace fathom::data
