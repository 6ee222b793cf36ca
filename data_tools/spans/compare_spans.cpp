#include "data_tools/spans/compare_spans.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <tuple>
#include <vector>

#include "core/error.h"

namespace fathom::data_tools {
namespace {

using data::spans::PhraseKind;
using data::spans::Span;
using data::spans::SpanFile;
using data::spans::TokenSpans;

/// A word (kind "word") or a phrase, in the order of the lists.
struct Entry {
  std::int32_t begin, end;
  const char* kind;

  bool operator==(const Entry& other) const {
    return begin == other.begin && end == other.end && std::string_view(kind) == other.kind;
  }
  bool operator<(const Entry& other) const {
    return std::tuple(begin, end, std::string_view(kind)) <
           std::tuple(other.begin, other.end, std::string_view(other.kind));
  }
};

std::vector<Entry> words_of(const TokenSpans& spans) {
  std::vector<Entry> entries;
  for (const Span& span : spans.words) entries.push_back({span.begin, span.end, "word"});
  return entries;
}

std::vector<Entry> phrases_of(const TokenSpans& spans) {
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < spans.phrases.size(); ++i) {
    const bool noun = spans.kinds[i] == PhraseKind::noun;
    entries.push_back(
        {spans.phrases[i].begin, spans.phrases[i].end, noun ? "noun phrase" : "verb phrase"});
  }
  return entries;
}

std::int64_t only_in(const std::vector<Entry>& own, const std::vector<Entry>& other) {
  std::vector<Entry> rest;
  std::set_difference(own.begin(), own.end(), other.begin(), other.end(), std::back_inserter(rest));
  return std::ssize(rest);
}

std::string show(const std::vector<Entry>& entries, std::size_t at) {
  if (at >= entries.size()) return "none";
  return str(entries[at].kind, " [", entries[at].begin, ", ", entries[at].end, ")");
}

/// Where two lists part; empty if they do not.
std::string first_difference(const std::vector<Entry>& left, const std::vector<Entry>& right) {
  const auto [l, r] = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
  if (l == left.end() && r == right.end()) return "";
  const auto at = static_cast<std::size_t>(l - left.begin());
  return str("number ", at, ": ", show(left, at), " against ", show(right, at));
}

}  // namespace

SpanDifference compare_spans(const SpanFile& left, const SpanFile& right) {
  require(left.info().tokens == right.info().tokens && left.records() == right.records(),
          ErrorKind::data, left.path().string(), " and ", right.path().string(),
          " belong to different token files: ", left.records(), " records of the fingerprint ",
          left.info().tokens, " against ", right.records(), " of ", right.info().tokens);
  SpanDifference difference;
  if (left.info().definition != right.info().definition)
    difference.definitions =
        str("'", left.info().definition, "' against '", right.info().definition, "'");
  for (std::int64_t record = 0; record < left.records(); ++record) {
    const TokenSpans a = left.spans(record), b = right.spans(record);
    if (a == b && left.checksum(record) == right.checksum(record)) continue;
    ++difference.records;
    const auto left_words = words_of(a), right_words = words_of(b);
    const auto left_phrases = phrases_of(a), right_phrases = phrases_of(b);
    difference.words_left += only_in(left_words, right_words);
    difference.words_right += only_in(right_words, left_words);
    difference.phrases_left += only_in(left_phrases, right_phrases);
    difference.phrases_right += only_in(right_phrases, left_phrases);
    if (!difference.first.empty()) continue;
    std::string what = first_difference(left_words, right_words);
    if (what.empty()) what = first_difference(left_phrases, right_phrases);
    if (what.empty()) what = "prompt length or checksum of the ids";
    difference.first = str("record ", record, ": ", what);
  }
  return difference;
}

std::string to_text(const SpanDifference& difference) {
  if (difference.equal()) return "equal\n";
  std::ostringstream out;
  if (!difference.definitions.empty()) out << "definitions: " << difference.definitions << '\n';
  out << difference.records << " records differ: " << difference.words_left
      << " words only in the first file, " << difference.words_right << " only in the second; "
      << difference.phrases_left << " phrases only in the first, " << difference.phrases_right
      << " only in the second\n";
  if (!difference.first.empty()) out << "first difference: " << difference.first << '\n';
  return out.str();
}

std::string describe_span_file(const SpanFile& file) {
  std::int64_t tokens = 0, longest = 0;
  for (std::int64_t r = 0; r < file.records(); ++r) {
    tokens += file.length(r);
    longest = std::max(longest, file.length(r));
  }
  const auto& info = file.info();
  std::ostringstream out;
  out << file.path().string() << ": " << file.records() << " records, " << tokens
      << " tokens, longest " << longest << "\n"
      << file.words() << " words, " << file.phrases() << " phrases, "
      << std::filesystem::file_size(file.path()) << " bytes\n"
      << "definition  " << info.definition << "\n"
      << "extractor   " << info.extractor << "\n"
      << "model       " << info.model << ", sha256 " << info.model_sha256 << "\n"
      << "tokenizer   " << info.tokenizer << "\n"
      << "tokens      " << info.tokens << "\n";
  return out.str();
}

}  // namespace fathom::data_tools
