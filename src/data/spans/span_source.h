#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "data/spans/span_file.h"
#include "data/spans/token_spans.h"
#include "data/tokenizers/tokenizer.h"

namespace fathom::data::spans {

/// What a SpanSource did since it was last asked.
struct SpanCounts {
  std::int64_t asked = 0;      ///< samples given out
  std::int64_t extracted = 0;  ///< samples whose text was parsed
  std::int64_t words = 0;      ///< given out
  std::int64_t phrases = 0;
  std::int64_t beyond_cut = 0;   ///< spans left out, since they end beyond the context
  double parsing_seconds = 0.0;  ///< of all threads together
  double exposed_seconds = 0.0;  ///< that get() kept its callers waiting
};

/// Where training takes the spans of its samples from: a span file for records of a token file, and
/// an extractor for texts that exist only as ids (what the student has just written) or for records
/// without a span file. Work that prefetch() announced is done by threads of its own while the
/// models run; get() takes the result, or does the work itself if no thread has begun it. Results
/// depend on the sample alone: not on threads, order, or what was announced.
///
/// Holds the newest `kept` results, so that a sample that comes again (a replay buffer, another
/// epoch of a small set) is not parsed again. Safe from several threads.
class SpanSource {
 public:
  struct Parts {
    std::shared_ptr<const TokenFile> tokens = nullptr;  ///< needed to ask by record
    std::optional<SpanFile> file = {};  ///< its spans; without it they are extracted
    std::shared_ptr<const Tokenizer> tokenizer = nullptr;
    FindSpans find = {};  ///< empty: no extraction; needs the tokenizer
    int threads = 1;      ///< for work that was announced; 0: all is done in get()
    std::size_t kept = 4096;
  };

  /// Throws Error(data) if the span file or the tokenizer is not the token file's, and
  /// Error(config) if there is neither a span file nor an extractor.
  explicit SpanSource(Parts parts);
  /// Drops work that has not begun.
  ~SpanSource();
  SpanSource(const SpanSource&) = delete;
  SpanSource& operator=(const SpanSource&) = delete;

  /// Announces records of the token file; returns at once.
  void prefetch(std::span<const std::int64_t> records);
  /// Announces texts that are given by their ids, prompt first; copies them and returns at once.
  void prefetch(std::span<const TokenRecord> texts);

  /// The spans of a record within the first `inputs` rows; those that end beyond are left out. The
  /// whole record is parsed, so a cut does not change what comes before it. Blocks until they are
  /// there. Throws Error(data) for a record that does not fit the span file.
  TokenSpans get(std::int64_t record, std::int64_t inputs);
  /// The same for a text that is given by its ids. Throws Error(config) without an extractor.
  TokenSpans get(const TokenRecord& text, std::int64_t inputs);
  /// Within the n - 1 rows of its n ids.
  TokenSpans get(const TokenRecord& text) { return get(text, std::ssize(text.ids) - 1); }

  /// The counts so far, which then begin again.
  SpanCounts take_counts();

 private:
  struct Job;
  /// A record by its number, or a text (record -1) by its ids.
  struct Key {
    std::int64_t record = -1;
    std::int32_t prompt_length = 0;
    std::vector<std::int32_t> ids;
    auto operator<=>(const Key&) const = default;
  };

  std::shared_ptr<Job> announce(Key key);
  TokenSpans take(Key key, std::int64_t inputs);
  void run(Job& job);
  TokenSpans find(const Key& key);
  void work();

  Parts parts_;
  std::mutex mutex_;  // guards all that follows, and the state of jobs
  std::condition_variable queued_;
  std::condition_variable done_;
  bool stopping_ = false;
  std::deque<std::shared_ptr<Job>> queue_;
  std::map<Key, std::shared_ptr<Job>> jobs_;
  std::deque<std::shared_ptr<Job>> by_age_;  // those in jobs_, oldest first
  SpanCounts counts_;
  std::vector<std::jthread> threads_;
};

}  // namespace fathom::data::spans
