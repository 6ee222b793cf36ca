#include "data_tools/text/record_sink.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/philox.h"

namespace fathom::data_tools {
namespace {

// Uniform in [0, 1), a function of (seed, unit) alone.
double share_of_unit(std::uint64_t seed, std::int64_t unit) {
  const auto number = static_cast<std::uint64_t>(unit);
  const Philox words =
      philox(static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
             static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), 0, 0);
  return words.v[0] * 0x1p-32;
}

TokenizeReport::Output finish_file(data::TokenFileWriter& writer, TokenizeReport::Output output,
                                   const std::string& source_fingerprint) {
  output.records = writer.records();
  output.tokens = writer.ids();
  output.fingerprint = writer.finish(source_fingerprint);
  return output;
}

}  // namespace

RecordSink::RecordSink(const TokenizeOptions& options, const data::TokenFileInfo& info,
                       TokenizeReport& report)
    : options_(options),
      report_(report),
      train_(options.output, info),
      cutter_(options.block, [this](std::vector<std::int32_t> ids) {
        add(std::move(ids), 0, -1, blocks_, str("block ", blocks_));
        ++blocks_;
      }) {
  report_.train.path = options.output;
  if (options.eval_output.empty()) return;
  eval_.emplace(options.eval_output, info);
  report_.eval.emplace();
  report_.eval->path = options.eval_output;
}

bool RecordSink::held_out(std::int64_t unit) const {
  if (!eval_) return false;
  if (options_.eval_first > 0) return unit < options_.eval_first;
  return share_of_unit(options_.seed, unit) < options_.eval_fraction;
}

void RecordSink::add(std::vector<std::int32_t> ids, std::int32_t prompt_length, std::int64_t source,
                     std::int64_t unit, const std::string& where) {
  const auto inputs = static_cast<std::int64_t>(ids.size()) - 1;
  if (options_.context > 0 && inputs > options_.context) {
    require(options_.overlong != data::Overlong::refuse, ErrorKind::data, where,
            ": the record needs ", inputs, " positions, the context has ", options_.context,
            "; set the overlong policy to truncate or skip, or raise the context");
    if (options_.overlong == data::Overlong::skip) {
      ++report_.skipped;
      return;
    }
    ids.resize(static_cast<std::size_t>(options_.context) + 1);
    if (prompt_length >= static_cast<std::int64_t>(ids.size())) {
      ++report_.unlabelled;
      return;
    }
    ++report_.truncated;
  }
  const bool held = held_out(unit);
  (held ? *eval_ : train_).append(ids, prompt_length, source);
  const auto length = static_cast<std::int32_t>(ids.size());
  (held ? *report_.eval : report_.train).label_tokens += length - std::max(prompt_length, 1);
  report_.lengths.push_back(length);
  report_.prompt_lengths.push_back(prompt_length);
}

void RecordSink::finish(const std::string& source_fingerprint) {
  cutter_.finish();
  const std::string inputs = options_.inputs.size() == 1
                                 ? options_.inputs[0].string()
                                 : str(options_.inputs.size(), " input files");
  const std::int64_t held = eval_ ? eval_->records() : 0;
  require(train_.records() + held > 0, ErrorKind::data, inputs, ": no record to write (",
          report_.empty, " empty, ", report_.skipped, " too long, ", report_.unlabelled,
          " without a label)");
  require(train_.records() > 0, ErrorKind::data, inputs, ": all ", held,
          " records were held out, none is left to train on");
  require(!eval_ || held > 0, ErrorKind::data, inputs, ": none of ", train_.records(),
          " records was held out; raise the share");
  report_.train = finish_file(train_, report_.train, source_fingerprint);
  if (eval_) report_.eval = finish_file(*eval_, *report_.eval, source_fingerprint);
  std::sort(report_.lengths.begin(), report_.lengths.end());
  std::sort(report_.prompt_lengths.begin(), report_.prompt_lengths.end());
}

void BlockCutter::add(std::span<const std::int32_t> ids) {
  const std::size_t full = static_cast<std::size_t>(block_) + 1;
  while (!ids.empty()) {
    const std::size_t taken = std::min(full - pending_.size(), ids.size());
    pending_.insert(pending_.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(taken));
    ids = ids.subspan(taken);
    if (pending_.size() == full) emit();
  }
}

void BlockCutter::finish() {
  if (pending_.size() >= 2) emit();
}

void BlockCutter::emit() {
  const std::int32_t last = pending_.back();
  take_(std::exchange(pending_, {last}));
}

}  // namespace fathom::data_tools
