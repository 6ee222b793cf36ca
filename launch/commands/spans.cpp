#include "launch/options/spans.h"

#include <array>
#include <iostream>
#include <unistd.h>

#include "core/log.h"
#include "core/stop_signal.h"
#include "data/spans/open_span_source.h"
#include "data_tools/spans/build_spans.h"
#include "data_tools/spans/compare_spans.h"
#include "data_tools/spans/show_spans.h"
#include "launch/commands/commands.h"
#include "launch/session.h"

namespace fathom::launch {
namespace {

using data::spans::Extractor;

// Called between the batches of records, which is where a build can stop.
void show_progress(const data_tools::SpanProgress& progress) {
  if (const int signal = stop_signal(); signal != 0 && progress.records < progress.all_records)
    throw Stopped{signal};
  if (!on_terminal()) return;
  const auto rate = static_cast<double>(progress.tokens) / progress.seconds;
  const double left = static_cast<double>(progress.all_records - progress.records) *
                      progress.seconds / static_cast<double>(progress.records);
  logger().status(str(progress.records, " of ", progress.all_records, " records, ",
                      static_cast<std::int64_t>(rate), " tokens/s, ",
                      static_cast<std::int64_t>(left), " s left"));
}

int build(const options::SpansRequest& request) {
  catch_stop_signals();
  const auto tokens = data::TokenFile::open(request.tokens);
  const auto tokenizer = data::Tokenizer::load(request.tokenizer);
  const auto extractor = std::make_shared<const Extractor>(request.model);
  const auto report = data_tools::build_spans(
      tokens, *tokenizer, find_with(extractor, request.definition),
      describe(*extractor, request.definition), request.output, request.threads, show_progress);
  if (on_terminal()) logger().end_status();
  std::cout << data_tools::to_text(report) << "wrote " << request.output << "\n";
  return 0;
}

int show(const options::SpansRequest& request) {
  const auto extractor = std::make_shared<const Extractor>(request.model);
  const bool colour = request.colour == options::Colour::on ||
                      (request.colour == options::Colour::automatic && ::isatty(STDOUT_FILENO));
  const auto spans = extractor->extract(request.text, request.definition);
  std::cout << data_tools::show_spans(request.text, spans, colour);
  if (request.tokenizer.empty()) return 0;
  const auto tokenizer = data::Tokenizer::load(request.tokenizer);
  const auto ids = tokenizer->encode(request.text, false).ids;
  const auto found = find_token_spans(*tokenizer, find_with(extractor, request.definition),
                                      std::array{data::TokenRecord{ids, 0}});
  std::cout << data_tools::show_token_spans(*tokenizer, ids, found.front(), colour);
  return 0;
}

int compare(const options::SpansRequest& request) {
  const auto difference = data_tools::compare_spans(data::spans::SpanFile::open(request.first),
                                                    data::spans::SpanFile::open(request.second));
  std::cout << data_tools::to_text(difference);
  return difference.equal() ? 0 : 1;
}

}  // namespace

int spans_command(const Arguments& arguments) {
  const options::SpansRequest request = options::parse_spans(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  switch (request.action) {
    case options::SpansAction::build:
      try {
        return build(request);
      } catch (const Stopped& asked) {
        return report_stop(asked.signal);
      }
    case options::SpansAction::show:
      return show(request);
    case options::SpansAction::inspect:
      std::cout << data_tools::describe_span_file(data::spans::SpanFile::open(request.first));
      return 0;
    case options::SpansAction::compare:
      return compare(request);
  }
  return 0;
}

}  // namespace fathom::launch
