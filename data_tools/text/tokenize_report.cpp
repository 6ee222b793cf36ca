#include <sstream>
#include <string>
#include <vector>

#include "data_tools/text/tokenize.h"

namespace fathom::data_tools {
namespace {

// The smallest value that at least this share of the sorted values does not exceed.
std::int32_t percentile(const std::vector<std::int32_t>& sorted, int percent) {
  if (sorted.empty()) return 0;
  const std::size_t rank = (sorted.size() * static_cast<std::size_t>(percent) + 99) / 100;
  return sorted[rank == 0 ? 0 : rank - 1];
}

void add_lengths(std::ostream& out, const char* what, const std::vector<std::int32_t>& sorted) {
  out << what << ": median " << percentile(sorted, 50) << ", 90 % " << percentile(sorted, 90)
      << ", 99 % " << percentile(sorted, 99) << ", longest " << percentile(sorted, 100) << '\n';
}

void add_output(std::ostream& out, const TokenizeReport::Output& output) {
  out << output.path.string() << ": " << output.records << " records, " << output.tokens
      << " tokens, " << output.label_tokens << " of them labels, fingerprint " << output.fingerprint
      << '\n';
}

}  // namespace

std::string to_text(const TokenizeReport& report) {
  std::ostringstream out;
  out << report.lines << " lines, " << report.examples << " examples, template "
      << report.template_name << '\n';
  const auto note = [&](std::int64_t count, const char* text) {
    if (count > 0) out << count << ' ' << text << '\n';
  };
  note(report.empty, "left out: no response or no text");
  note(report.skipped, "left out: longer than the context");
  note(report.unlabelled, "left out: the prompt alone fills the context");
  note(report.truncated, "cut to the context");
  note(report.boundary_split, "encoded in two parts: a token would span prompt and response");
  add_lengths(out, "tokens a record", report.lengths);
  if (!report.prompt_lengths.empty() && report.prompt_lengths.back() > 0) {
    add_lengths(out, "of them prompt", report.prompt_lengths);
  }
  add_output(out, report.train);
  if (report.eval) add_output(out, *report.eval);
  return out.str();
}

}  // namespace fathom::data_tools
