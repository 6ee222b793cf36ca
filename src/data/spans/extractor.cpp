#include "data/spans/extractor.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "data/spans/english/clean_text.h"
#include "data/spans/english/pipeline.h"

namespace fathom::data::spans {
namespace {

using english::CleanText;
using english::Parsed;
using english::Word;
using english::WorkspacePool;

// Texts of one batch, about: enough rows to keep the network busy, few enough for the cache.
constexpr std::size_t kBatchBytes = 8192;

std::vector<CleanText> clean(std::span<const std::string_view> texts) {
  std::vector<CleanText> out;
  out.reserve(texts.size());
  for (const std::string_view text : texts) {
    require(text.size() <= Extractor::kMaxBytes, ErrorKind::data, "a text of ", text.size(),
            " bytes cannot be parsed for spans; at most ", Extractor::kMaxBytes,
            " are possible: cut it at paragraphs");
    out.emplace_back(text);
  }
  return out;
}

std::vector<std::string_view> views(const std::vector<CleanText>& texts) {
  std::vector<std::string_view> out;
  for (const CleanText& text : texts) out.push_back(text.text());
  return out;
}

void to_original(TextSpans& spans, const CleanText& text) {
  for (ByteRange& word : spans.words) word = text.original(word);
  for (Phrase& phrase : spans.phrases) phrase.range = text.original(phrase.range);
}

/// First text of each batch, and the number of texts.
std::vector<std::size_t> batches(std::span<const std::string_view> texts) {
  std::vector<std::size_t> starts = {0};
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (bytes > 0 && bytes + texts[i].size() > kBatchBytes) {
      starts.push_back(i);
      bytes = 0;
    }
    bytes += texts[i].size();
  }
  starts.push_back(texts.size());
  return starts;
}

}  // namespace

Extractor::Extractor(const std::filesystem::path& model)
    : pipeline_(std::make_unique<const english::Pipeline>(english::ModelFile::read(model))) {}
Extractor::~Extractor() = default;
Extractor::Extractor(Extractor&&) noexcept = default;
Extractor& Extractor::operator=(Extractor&&) noexcept = default;

const ModelInfo& Extractor::info() const {
  return pipeline_->info;
}

Analysis Extractor::analyse(std::string_view text) const {
  const std::vector<CleanText> cleaned = clean({&text, 1});
  const WorkspacePool::Lease workspace(pipeline_->workspaces);
  const Parsed parsed = pipeline_->parse(views(cleaned), *workspace).front();
  Analysis analysis;
  for (std::size_t i = 0; i < parsed.words.size(); ++i) {
    const Word& word = parsed.words[i];
    Token token;
    token.range = cleaned.front().original({word.begin, word.end});
    token.space_after = word.space_after;
    token.is_space = word.lexeme->is_space;
    token.sentence_start = parsed.tree.sentence_start[i];
    token.head = parsed.tree.head[i];
    token.tag = pipeline_->tags[parsed.tags[i]];
    token.pos = to_string(parsed.pos[i]);
    token.dep = pipeline_->labels.name(parsed.tree.label[i]);
    analysis.tokens.push_back(token);
  }
  return analysis;
}

TextSpans Extractor::extract(std::string_view text, const Options& options) const {
  return extract({&text, 1}, options, 1).front();
}

std::vector<TextSpans> Extractor::extract(std::span<const std::string_view> texts,
                                          const Options& options, int threads) const {
  require(threads >= 1, ErrorKind::internal, "span extraction on ", threads, " threads");
  const std::vector<std::size_t> starts = batches(texts);
  std::vector<TextSpans> out(texts.size());
  parallel_for(starts.size() - 1, static_cast<std::size_t>(threads), [&](std::size_t batch) {
    const std::size_t first = starts[batch], count = starts[batch + 1] - first;
    const std::vector<CleanText> cleaned = clean(texts.subspan(first, count));
    const WorkspacePool::Lease workspace(pipeline_->workspaces);
    const std::vector<Parsed> parsed = pipeline_->parse(views(cleaned), *workspace);
    for (std::size_t i = 0; i < count; ++i) {
      out[first + i] = spans_of(parsed[i], pipeline_->phrases, options);
      to_original(out[first + i], cleaned[i]);
    }
  });
  return out;
}

}  // namespace fathom::data::spans
