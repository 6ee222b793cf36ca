#include "data/dataset.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace fathom::data {
namespace {

// Position p predicts ids[p + 1]; supervised from max(prompt, 1) - 1 to inputs - 1.
std::int64_t label_count(std::int64_t inputs, std::int32_t prompt_length) {
  return inputs + 1 - std::max<std::int64_t>(prompt_length, 1);
}

[[noreturn]] void refuse_overlong(const TokenFile& file, std::int64_t context, std::int64_t first) {
  std::int64_t count = 0;
  std::int64_t longest = 0;
  for (std::int64_t r = 0; r < file.records(); ++r) {
    count += file.length(r) - 1 > context;
    longest = std::max(longest, file.length(r) - 1);
  }
  fail(ErrorKind::data, file.path().string(), ": record ", first, " needs ", file.length(first) - 1,
       " positions, the context has ", context, " (", count, " of ", file.records(),
       " records are too long, the longest needs ", longest,
       "); set data.overlong to truncate or skip, or raise the context");
}

}  // namespace

const char* to_string(Overlong policy) {
  switch (policy) {
    case Overlong::refuse:
      return "refuse";
    case Overlong::truncate:
      return "truncate";
    case Overlong::skip:
      return "skip";
  }
  return "?";
}

Overlong parse_overlong(const std::string& name) {
  for (Overlong policy : {Overlong::refuse, Overlong::truncate, Overlong::skip}) {
    if (name == to_string(policy)) return policy;
  }
  fail(ErrorKind::config, "overlong policy '", name, "'; refuse, truncate or skip expected");
}

Dataset::Dataset(std::shared_ptr<const TokenFile> file, std::int64_t context, Overlong policy,
                 bool learn_prompts)
    : file_(std::move(file)), context_(context), policy_(policy), learn_prompts_(learn_prompts) {
  require(context > 0, ErrorKind::config, "context length ", context, "; at least 1 expected");
  report_.records = file_->records();
  for (std::int64_t r = 0; r < file_->records(); ++r) {
    const std::int64_t needed = file_->length(r) - 1;
    const std::int64_t labels =
        label_count(std::min(needed, context), learn_prompts ? 0 : file_->prompt_length(r));
    report_.longest = std::max(report_.longest, needed);
    if (needed > context && policy == Overlong::refuse) refuse_overlong(*file_, context, r);
    if (needed > context && policy == Overlong::skip) {
      ++report_.skipped;
    } else if (labels < 1) {
      ++report_.unlabelled;
    } else {
      report_.truncated += needed > context;
      report_.label_tokens += labels;
      kept_.push_back(r);
    }
  }
  report_.kept = records();
  require(!kept_.empty(), ErrorKind::data, file_->path().string(), ": none of ", report_.records,
          " records can be used within a context of ", context, " (", report_.skipped, " skipped, ",
          report_.unlabelled, " without a label left); raise the context");
}

TokenRecord Dataset::record(std::int64_t index) const {
  TokenRecord record = file_->record(file_record(index));
  record.ids = record.ids.first(static_cast<std::size_t>(inputs(index)) + 1);
  record.learn_prompt = learn_prompts_;
  return record;
}

std::int64_t Dataset::inputs(std::int64_t index) const {
  return std::min(file_->length(file_record(index)) - 1, context_);
}

std::int64_t Dataset::labels(std::int64_t index) const {
  return label_count(inputs(index), learn_prompts_ ? 0 : prompt_length(index));
}

}  // namespace fathom::data
