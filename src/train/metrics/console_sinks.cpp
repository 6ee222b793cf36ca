#include "train/metrics/console_sinks.h"

#include <algorithm>
#include <cmath>

#include "train/metrics/format.h"

namespace fathom::train {
namespace {

constexpr double paints_per_second = 10.0;
constexpr int lines_per_heading = 40;

std::string percent(double share, int decimals) {
  return format_fixed(100.0 * share, decimals) + "%";
}

struct Column {
  std::string heading;
  std::string value;
};

std::vector<Column> columns(const StepMetrics& m, double remaining_seconds) {
  std::vector<Column> row = {{"step", str(m.step, "/", m.steps)},
                             {"loss", format_fixed(m.loss, 4)}};
  for (const NamedValue& part : m.parts) row.push_back({part.name, format_fixed(part.value, 4)});
  row.push_back({"grad norm", format_fixed(m.grad_norm, 4)});
  row.push_back({"lr", format_scientific(m.lr, 2)});
  row.push_back({"tokens", format_count(m.tokens)});
  row.push_back({"tok/s", format_count(std::llround(m.tokens_per_s))});
  row.push_back({"peak", m.peak_share ? percent(*m.peak_share, 0) : "-"});
  row.push_back({"memory", format_bytes(m.memory_bytes)});
  row.push_back({"ETA", format_duration(remaining_seconds)});
  if (!m.remark.empty()) row.push_back({"", m.remark});
  return row;
}

/// Right-aligned; a text that does not fit keeps its blank and pushes the rest.
std::string aligned(const std::vector<Column>& row, std::string Column::*field) {
  std::string line;
  for (const Column& column : row) {
    const std::size_t width = std::max<std::size_t>(9, column.heading.size() + 1);
    const std::string& text = column.*field;
    line += " " + std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
  }
  return line;
}

}  // namespace

void Pace::add(double seconds) {
  constexpr double newest = 0.1;
  average_ = count_ < 2 ? seconds : (1.0 - newest) * average_ + newest * seconds;
  ++count_;
}

double Pace::remaining(std::int64_t steps_left) const {
  return average_ * static_cast<double>(steps_left);
}

std::string progress_text(const StepMetrics& m, double remaining_seconds) {
  std::string text = str("step ", m.step, "/", m.steps, "  loss ", format_fixed(m.loss, 4), "  ",
                         format_count(std::llround(m.tokens_per_s)), " tok/s");
  if (m.peak_share) text += "  " + percent(*m.peak_share, 0) + " of peak";
  text += "  " + format_bytes(m.memory_bytes) + "  ETA " + format_duration(remaining_seconds);
  return m.remark.empty() ? text : text + "  " + m.remark;
}

std::string evaluation_text(const EvalMetrics& m) {
  return str("eval after step ", m.step, ": loss ", format_fixed(m.loss, 4), "  perplexity ",
             format_fixed(m.perplexity, 2), "  accuracy ", percent(m.accuracy, 1), "  (",
             format_count(m.tokens), " tokens, ", format_duration(m.seconds), ")");
}

LiveProgress::~LiveProgress() {
  out_->end_status();
}

void LiveProgress::step(const StepMetrics& m) {
  pace_.add(m.seconds);
  const bool last = m.step >= m.steps;
  if (!last && since_paint_ && since_paint_->seconds() < 1.0 / paints_per_second) return;
  since_paint_.emplace();
  out_->status(progress_text(m, pace_.remaining(m.steps - m.step)));
  if (last) out_->end_status();
}

void LiveProgress::evaluation(const EvalMetrics& m) {
  out_->info(evaluation_text(m));
}

void ColumnLog::step(const StepMetrics& m) {
  pace_.add(m.seconds);
  if (m.step % every_ != 0 && m.step < m.steps && lines_ > 0) return;
  const std::vector<Column> row = columns(m, pace_.remaining(m.steps - m.step));
  if (lines_ % lines_per_heading == 0) out_->info(aligned(row, &Column::heading));
  out_->info(aligned(row, &Column::value));
  ++lines_;
}

void ColumnLog::evaluation(const EvalMetrics& m) {
  out_->info(evaluation_text(m));
}

}  // namespace fathom::train
