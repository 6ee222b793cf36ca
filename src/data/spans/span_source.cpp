#include "data/spans/span_source.h"

#include <array>
#include <exception>
#include <utility>

#include "core/error.h"
#include "core/timer.h"

namespace fathom::data::spans {

/// The spans of one sample, on their way.
struct SpanSource::Job {
  enum class State { waiting, running, done };

  Key key;
  State state = State::waiting;
  TokenSpans spans;          // once done, never written again
  std::exception_ptr error;  // likewise
};

SpanSource::SpanSource(Parts parts) : parts_(std::move(parts)) {
  require(parts_.file || parts_.find, ErrorKind::config,
          "spans come from neither a span file nor an extractor; set spans.train or spans.model");
  FATHOM_CHECK(!parts_.find || parts_.tokenizer, "an extractor without a tokenizer");
  FATHOM_CHECK(!parts_.file || parts_.tokens, "a span file without its token file");
  if (parts_.file) parts_.file->require_made_of(*parts_.tokens);
  if (parts_.find && parts_.tokens) {
    const std::string own = parts_.tokenizer->fingerprint();
    const std::string needed = parts_.tokens->info().tokenizer;
    require(own == needed, ErrorKind::data, parts_.tokens->path().string(),
            ": made with the tokenizer ", needed, ", spans would be found with ", own,
            "; tokenize the text with the model's own tokenizer");
  }
  for (int t = 0; t < parts_.threads; ++t) threads_.emplace_back([this] { work(); });
}

SpanSource::~SpanSource() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  queued_.notify_all();
  threads_.clear();  // joins before what they use goes
}

void SpanSource::prefetch(std::span<const std::int64_t> records) {
  if (parts_.threads == 0) return;
  for (const std::int64_t record : records) {
    const std::lock_guard lock(mutex_);
    announce({.record = record, .prompt_length = 0, .ids = {}});
  }
}

void SpanSource::prefetch(std::span<const TokenRecord> texts) {
  if (parts_.threads == 0) return;
  for (const TokenRecord& text : texts) {
    Key key{.prompt_length = text.prompt_length, .ids = {text.ids.begin(), text.ids.end()}};
    const std::lock_guard lock(mutex_);
    announce(std::move(key));
  }
}

TokenSpans SpanSource::get(std::int64_t record, std::int64_t inputs) {
  return take({.record = record, .prompt_length = 0, .ids = {}}, inputs);
}

TokenSpans SpanSource::get(const TokenRecord& text, std::int64_t inputs) {
  return take({.prompt_length = text.prompt_length, .ids = {text.ids.begin(), text.ids.end()}},
              inputs);
}

SpanCounts SpanSource::take_counts() {
  const std::lock_guard lock(mutex_);
  return std::exchange(counts_, {});
}

// The job of a sample, made and queued if there is none. The caller holds the lock.
std::shared_ptr<SpanSource::Job> SpanSource::announce(Key key) {
  if (const auto known = jobs_.find(key); known != jobs_.end()) return known->second;
  auto job = std::make_shared<Job>();
  job->key = key;
  jobs_.emplace(std::move(key), job);
  by_age_.push_back(job);
  // What is still awaited is never dropped, even if that is more than asked for.
  while (by_age_.size() > parts_.kept && by_age_.front()->state == Job::State::done) {
    jobs_.erase(by_age_.front()->key);
    by_age_.pop_front();
  }
  if (parts_.threads > 0) {
    queue_.push_back(job);
    queued_.notify_one();
  }
  return job;
}

TokenSpans SpanSource::take(Key key, std::int64_t inputs) {
  const Timer timer;
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Job> job = announce(std::move(key));
  if (job->state == Job::State::waiting) {
    job->state = Job::State::running;
    lock.unlock();
    run(*job);
    lock.lock();
  }
  done_.wait(lock, [&] { return job->state == Job::State::done; });
  counts_.exposed_seconds += timer.seconds();
  if (job->error) std::rethrow_exception(job->error);
  TokenSpans spans = job->spans;
  counts_.beyond_cut += cut_spans(spans, inputs);
  ++counts_.asked;
  counts_.words += std::ssize(spans.words);
  counts_.phrases += std::ssize(spans.phrases);
  return spans;
}

// Does the work of a job that the caller has marked as running.
void SpanSource::run(Job& job) {
  const Timer timer;
  TokenSpans spans;
  std::exception_ptr error;
  try {
    spans = find(job.key);
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  job.spans = std::move(spans);
  job.error = error;
  job.state = Job::State::done;
  if (job.key.record < 0 || !parts_.file) {
    ++counts_.extracted;
    counts_.parsing_seconds += timer.seconds();
  }
  done_.notify_all();
}

TokenSpans SpanSource::find(const Key& key) {
  TokenRecord record{key.ids, key.prompt_length};
  if (key.record >= 0) {
    FATHOM_CHECK(parts_.tokens != nullptr, "record ", key.record, " of no token file");
    record = parts_.tokens->record(key.record);
    if (parts_.file) return parts_.file->spans(key.record, record.ids);
  }
  require(static_cast<bool>(parts_.find), ErrorKind::config,
          "spans of text that the student writes need an extractor: set spans.model");
  return std::move(find_token_spans(*parts_.tokenizer, parts_.find, std::array{record}).front());
}

void SpanSource::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    queued_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const std::shared_ptr<Job> job = std::move(queue_.front());
    queue_.pop_front();
    if (job->state != Job::State::waiting) continue;  // get() was faster
    job->state = Job::State::running;
    lock.unlock();
    run(*job);
    lock.lock();
  }
}

}  // namespace fathom::data::spans
