#include "data_tools/spans/show_spans.h"

#include <algorithm>

#include "core/error.h"

namespace fathom::data_tools {
namespace {

using data::spans::ByteRange;
using data::spans::Phrase;
using data::spans::PhraseKind;
using data::spans::Span;

constexpr const char* kPlain = "\033[0m";

/// How a phrase begins on the screen.
const char* opening(PhraseKind kind, bool colour) {
  if (colour) return kind == PhraseKind::noun ? "\033[1;32m" : "\033[1;33m";
  return kind == PhraseKind::noun ? "[" : "{";
}

const char* closing(PhraseKind kind) {
  return kind == PhraseKind::noun ? "]" : "}";
}

/// A text must not steer the terminal that shows it.
void append_visible(std::string& page, char byte) {
  const auto value = static_cast<unsigned char>(byte);
  const bool control = (value < 0x20 && byte != '\n' && byte != '\t') || value == 0x7F;
  if (control) {
    page += "\uFFFD";
  } else {
    page += byte;
  }
}

/// A word or a token: on one line whatever it holds.
std::string visible(std::string_view text) {
  std::string page;
  for (const char byte : text) {
    if (byte == '\n') {
      page += "\\n";
    } else {
      append_visible(page, byte);
    }
  }
  return page;
}

/// In colour, what is open after an end is painted again: phrases may overlap in part.
std::string close_phrases(const std::vector<Phrase>& phrases, std::uint32_t at, bool colour) {
  std::string marks;
  for (const Phrase& phrase : phrases) {
    if (phrase.range.end == at) marks += colour ? kPlain : closing(phrase.kind);
  }
  for (const Phrase& phrase : phrases) {
    const bool open = phrase.range.begin < at && phrase.range.end > at;
    if (colour && !marks.empty() && open) marks += opening(phrase.kind, true);
  }
  return marks;
}

std::string with_phrases(const std::string& text, const std::vector<Phrase>& phrases, bool colour) {
  std::string page;
  for (std::uint32_t at = 0; at <= text.size(); ++at) {
    page += close_phrases(phrases, at, colour);
    for (const Phrase& phrase : phrases) {
      if (phrase.range.begin == at) page += opening(phrase.kind, colour);
    }
    if (at < text.size()) append_visible(page, text[at]);
  }
  return page;
}

}  // namespace

std::string show_spans(const std::string& text, const data::spans::TextSpans& spans, bool colour) {
  std::string page = "words    ";
  for (std::size_t i = 0; i < spans.words.size(); ++i) {
    const ByteRange word = spans.words[i];
    page += i > 0 ? "|" : "";
    page += visible(std::string_view(text).substr(word.begin, word.end - word.begin));
  }
  page += "\nphrases  " + with_phrases(text, spans.phrases, colour) + "\n";
  const std::string noun = opening(PhraseKind::noun, colour);
  const std::string verb = opening(PhraseKind::verb, colour);
  return page + "         " + noun + "noun phrase" + (colour ? kPlain : "]") + " " + verb +
         "verb phrase" + (colour ? kPlain : "}") + "\n";
}

std::string show_token_spans(const data::Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                             const data::spans::TokenSpans& spans, bool colour) {
  const auto spelt = [&](std::size_t begin, std::size_t end, const char* between) {
    std::string text;
    for (std::size_t i = begin; i < end; ++i) {
      text += i > begin ? between : "";
      text += visible(tokenizer.token_bytes(ids[i]));
    }
    return text;
  };
  std::string page = str("tokens   ", spelt(0, ids.size(), "|"), "\n");
  for (std::size_t i = 0; i < spans.phrases.size(); ++i) {
    const auto [begin, end] = spans.phrases[i];
    const PhraseKind kind = spans.kinds[i];
    page += str("         ", opening(kind, colour),
                spelt(static_cast<std::size_t>(begin), static_cast<std::size_t>(end), ""),
                colour ? kPlain : closing(kind), "  ids [", begin, ", ", end, ")\n");
  }
  return page;
}

}  // namespace fathom::data_tools
