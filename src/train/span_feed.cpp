#include "train/span_feed.h"

#include <limits>
#include <sstream>
#include <utility>

#include "data/spans/crc32.h"
#include "data/spans/open_span_source.h"

namespace fathom::train {

using data::MicroBatch;
using data::Role;
using data::spans::TokenSpans;

namespace {

// The ids of a sequence with its last label, and where its response begins.
struct Text {
  std::vector<std::int32_t> ids;
  std::int32_t prompt_length = 0;
  data::TokenRecord record() const { return {ids, prompt_length}; }
};

Text text_of(const MicroBatch& batch, std::int64_t sequence) {
  const auto s = static_cast<std::size_t>(sequence);
  const std::int64_t begin = batch.cu_seqlens[s], end = batch.cu_seqlens[s + 1];
  Text text;
  text.ids.assign(batch.ids.begin() + begin, batch.ids.begin() + end);
  text.prompt_length = batch.prompts[s];
  if (const std::int32_t last = batch.labels[static_cast<std::size_t>(end - 1)];
      last != data::kNoLabel)
    text.ids.push_back(last);
  return text;
}

void write(std::ostream& out, std::size_t number, const TokenSpans& spans) {
  out << number << ' ' << spans.prompt_length << ' ' << spans.words.size() << ' '
      << spans.phrases.size();
  for (const auto& span : spans.words) out << ' ' << span.begin << ' ' << span.end;
  for (std::size_t i = 0; i < spans.phrases.size(); ++i)
    out << ' ' << spans.phrases[i].begin << ' ' << spans.phrases[i].end << ' '
        << static_cast<int>(spans.kinds[i]);
  out << '\n';
}

TokenSpans read(std::istream& in) {
  TokenSpans spans;
  std::size_t words = 0, phrases = 0;
  in >> spans.prompt_length >> words >> phrases;
  spans.words.resize(words);
  for (auto& span : spans.words) in >> span.begin >> span.end;
  for (std::size_t i = 0; i < phrases; ++i) {
    data::spans::Span span;
    int kind = 0;
    in >> span.begin >> span.end >> kind;
    spans.phrases.push_back(span);
    spans.kinds.push_back(static_cast<data::spans::PhraseKind>(kind));
  }
  FATHOM_CHECK(!in.fail(), "spans from another rank end too early");
  return spans;
}

}  // namespace

SpanFeed::SpanFeed(comm::ProcessGrid& grid, const SpansConfig& config)
    : grid_(grid), config_(config) {}

void SpanFeed::open(std::shared_ptr<const data::TokenFile> tokens,
                    const std::filesystem::path& tokenizer) {
  source_ = data::spans::open_span_source({.file = config_.train,
                                           .model = config_.model,
                                           .tokenizer = tokenizer,
                                           .options = {.verb = config_.vp, .words = config_.words},
                                           .threads = config_.threads},
                                          std::move(tokens));
}

bool SpanFeed::from_file(const MicroBatch& batch) const {
  return !config_.train.empty() && batch.role == Role::dataset;
}

// Texts are dealt to the ranks of a model by what they are.
bool SpanFeed::mine(const MicroBatch& batch, std::int64_t sequence) const {
  const auto place = grid_.place();
  const auto shape = grid_.shape();
  const std::int64_t key = batch.role == Role::dataset
                               ? batch.record_index[static_cast<std::size_t>(sequence)]
                               : data::spans::crc32_of(text_of(batch, sequence).ids);
  return key % (shape.pp * shape.tp) == place.pp * shape.tp + place.tp;
}

template <typename Visit>
void SpanFeed::for_each(const std::vector<MicroBatch>& batches, const Visit& visit) const {
  std::size_t number = 0;
  for (std::size_t slot = 0; slot < batches.size(); ++slot) {
    if (batches[slot].role == Role::corpus) continue;
    for (std::int64_t s = 0; s < batches[slot].sequences(); ++s) visit(number++, slot, s);
  }
}

void SpanFeed::prefetch(const std::vector<MicroBatch>& batches) {
  std::vector<std::int64_t> records;
  std::vector<Text> texts;
  for_each(batches, [&](std::size_t, std::size_t slot, std::int64_t s) {
    const MicroBatch& batch = batches[slot];
    if (!from_file(batch) && !mine(batch, s)) return;  // every rank reads the file itself
    if (batch.role == Role::dataset)
      records.push_back(batch.record_index[static_cast<std::size_t>(s)]);
    else
      texts.push_back(text_of(batch, s));
  });
  source_->prefetch(records);
  std::vector<data::TokenRecord> views;
  for (const Text& text : texts) views.push_back(text.record());
  source_->prefetch(views);
}

// Beyond the cut as well.
TokenSpans SpanFeed::get(const MicroBatch& batch, std::int64_t sequence) {
  constexpr auto kAll = std::numeric_limits<std::int64_t>::max();
  if (batch.role == Role::dataset)
    return source_->get(batch.record_index[static_cast<std::size_t>(sequence)], kAll);
  return source_->get(text_of(batch, sequence).record(), kAll);
}

data::spans::SpanCounts SpanFeed::take_counts() {
  data::spans::SpanCounts counts = source_->take_counts();
  counts.beyond_cut = std::exchange(beyond_cut_, 0);
  return counts;
}

std::vector<std::vector<TokenSpans>> SpanFeed::take(const std::vector<MicroBatch>& batches) {
  std::vector<std::vector<TokenSpans>> spans;
  for (const MicroBatch& batch : batches)
    spans.emplace_back(batch.role == Role::corpus ? 0
                                                  : static_cast<std::size_t>(batch.sequences()));
  std::vector<TokenSpans*> places;
  std::ostringstream found;
  bool shared = false;
  for_each(batches, [&](std::size_t number, std::size_t slot, std::int64_t s) {
    TokenSpans& place = spans[slot][static_cast<std::size_t>(s)];
    places.push_back(&place);
    if (from_file(batches[slot])) {
      place = get(batches[slot], s);
      return;
    }
    shared = true;
    if (mine(batches[slot], s)) write(found, number, get(batches[slot], s));
  });
  if (shared)
    for (const std::string& text : exchange(found.str())) {
      std::istringstream in(text);
      for (std::size_t number = 0; in >> number;) *places.at(number) = read(in);
    }
  for_each(batches, [&](std::size_t number, std::size_t slot, std::int64_t s) {
    const auto rows = static_cast<std::size_t>(s);
    beyond_cut_ += cut_spans(*places[number],
                             batches[slot].cu_seqlens[rows + 1] - batches[slot].cu_seqlens[rows]);
  });
  return spans;
}

std::vector<std::string> SpanFeed::exchange(const std::string& text) {
  std::string row;
  for (const std::string& part : grid_.tp().all_gather_text(text)) row += part;
  return grid_.pp().all_gather_text(row);
}

}  // namespace fathom::train
