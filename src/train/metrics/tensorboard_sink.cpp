#include "train/metrics/tensorboard_sink.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <unistd.h>

#include "core/error.h"
#include "event.pb.h"
#include "train/metrics/record_frame.h"

namespace fathom::train {
namespace {

using tensorboard::Event;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// Sorts after the earlier files of the folder, and differs from those of the same second.
std::filesystem::path new_file(const std::filesystem::path& folder) {
  const std::string stem =
      str("events.out.tfevents.", static_cast<std::int64_t>(seconds_since_1970()), ".", host_name(),
          ".", getpid());
  for (int count = 0;; ++count) {
    std::filesystem::path path = folder / str(stem, ".", count);
    if (!std::filesystem::exists(path)) return path;
  }
}

void add_scalar(Event& event, const std::string& tag, double value) {
  auto* item = event.mutable_summary()->add_value();
  item->set_tag(tag);
  item->set_simple_value(static_cast<float>(value));
}

}  // namespace

TensorboardSink::TensorboardSink(const std::filesystem::path& folder,
                                 std::optional<std::int64_t> resumed_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, ErrorKind::io, "cannot make the folder ", folder.string(), ": ", error.message());
  path_ = new_file(folder);
  out_.open(path_, std::ios::binary);
  require(out_.is_open(), ErrorKind::io, "cannot write ", path_.string(), ": ",
          std::strerror(errno));
  Event version;
  version.set_file_version("brain.Event:2");
  write(version, 0);
  Event start;
  start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  write(start, resumed_step ? *resumed_step + 1 : 0);
}

void TensorboardSink::step(const StepMetrics& m) {
  constexpr double gibibyte = 1024.0 * 1024.0 * 1024.0;
  Event event;
  add_scalar(event, "loss/total", m.loss);
  for (const NamedValue& part : m.parts) add_scalar(event, "loss/" + part.name, part.value);
  add_scalar(event, "train/grad_norm", m.grad_norm);
  add_scalar(event, "train/lr", m.lr);
  add_scalar(event, "train/tokens_per_s", m.tokens_per_s);
  if (m.peak_share) add_scalar(event, "train/peak_share", *m.peak_share);
  add_scalar(event, "train/memory_gib", static_cast<double>(m.memory_bytes) / gibibyte);
  for (const NamedValue& item : m.more) add_scalar(event, "train/" + item.name, item.value);
  write(event, m.step);
}

void TensorboardSink::evaluation(const EvalMetrics& m) {
  Event event;
  add_scalar(event, "eval/loss", m.loss);
  add_scalar(event, "eval/perplexity", m.perplexity);
  add_scalar(event, "eval/accuracy", m.accuracy);
  write(event, m.step);
}

void TensorboardSink::write(Event& event, std::int64_t step) {
  event.set_wall_time(seconds_since_1970());
  event.set_step(step);
  out_ << frame_record(event.SerializeAsString()) << std::flush;
  require(out_.good(), ErrorKind::io, "cannot write ", path_.string(), ": ", std::strerror(errno));
}

}  // namespace fathom::train
