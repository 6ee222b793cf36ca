#include "data_tools/spans/build_spans.h"

#include <algorithm>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "core/timer.h"

namespace fathom::data_tools {
namespace {

using data::spans::TokenSpans;

constexpr std::size_t kTask = 32;         // records whose texts are parsed together
constexpr std::size_t kTasksAThread = 4;  // between two reports of progress

void count(const TokenSpans& spans, SpanReport& report) {
  ++report.records;
  report.words += std::ssize(spans.words);
  const auto verbs =
      std::count(spans.kinds.begin(), spans.kinds.end(), data::spans::PhraseKind::verb);
  report.verb_phrases += verbs;
  report.noun_phrases += std::ssize(spans.kinds) - verbs;
  report.without_phrases += spans.phrases.empty();
}

void require_tokenizer(const data::TokenFile& tokens, const data::Tokenizer& tokenizer) {
  require(tokenizer.fingerprint() == tokens.info().tokenizer, ErrorKind::data,
          tokens.path().string(), ": made with the tokenizer ", tokens.info().tokenizer,
          ", given is ", tokenizer.fingerprint(),
          "; give the tokenizer that `fathom tokenize` was given");
}

}  // namespace

SpanReport build_spans(const data::TokenFile& tokens, const data::Tokenizer& tokenizer,
                       const data::spans::FindSpans& find, data::spans::SpanFileInfo info,
                       const std::filesystem::path& output, int threads,
                       const std::function<void(const SpanProgress&)>& progress) {
  require_tokenizer(tokens, tokenizer);
  info.tokenizer = tokens.info().tokenizer;
  info.tokens = tokens.info().content;
  data::spans::SpanFileWriter writer(output, std::move(info));
  const std::size_t workers =
      threads > 0 ? static_cast<std::size_t>(threads) : std::thread::hardware_concurrency();
  const Timer timer;
  SpanReport report;
  while (report.records < tokens.records()) {
    const std::int64_t first = report.records;
    const auto count_now = std::min<std::size_t>(
        workers * kTasksAThread * kTask, static_cast<std::size_t>(tokens.records() - first));
    std::vector<data::TokenRecord> records(count_now);
    for (std::size_t i = 0; i < count_now; ++i)
      records[i] = tokens.record(first + static_cast<std::int64_t>(i));
    std::vector<std::vector<TokenSpans>> found((count_now + kTask - 1) / kTask);
    parallel_for(found.size(), workers, [&](std::size_t task) {
      const std::size_t begin = task * kTask, size = std::min(kTask, count_now - begin);
      found[task] = find_token_spans(tokenizer, find, std::span(records).subspan(begin, size));
    });
    for (std::size_t i = 0; i < count_now; ++i) {
      const TokenSpans& spans = found[i / kTask][i % kTask];
      writer.append(records[i].ids, spans);
      count(spans, report);
      report.tokens += std::ssize(records[i].ids);
    }
    progress({report.records, tokens.records(), report.tokens, timer.seconds()});
  }
  writer.finish();
  report.seconds = timer.seconds();
  return report;
}

std::string to_text(const SpanReport& report) {
  std::ostringstream out;
  out << report.records << " records, " << report.tokens << " tokens: " << report.words
      << " words, " << report.noun_phrases << " noun and " << report.verb_phrases
      << " verb phrases\n";
  if (report.without_phrases > 0) out << report.without_phrases << " records without a phrase\n";
  out.setf(std::ios::fixed);
  out.precision(1);
  out << report.seconds << " s, "
      << static_cast<std::int64_t>(static_cast<double>(report.tokens) / report.seconds)
      << " tokens/s\n";
  return out.str();
}

}  // namespace fathom::data_tools
