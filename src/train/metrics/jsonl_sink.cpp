#include "train/metrics/jsonl_sink.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace fathom::train {
namespace {

using Json = nlohmann::ordered_json;

Json to_object(const std::vector<NamedValue>& values) {
  Json object = Json::object();
  for (const NamedValue& item : values) object[item.name] = item.value;
  return object;
}

/// Bytes at the start of the file that hold whole lines of steps up to the last one.
std::uintmax_t kept_bytes(const std::filesystem::path& path, std::int64_t last_step) {
  std::ifstream in(path, std::ios::binary);
  std::uintmax_t kept = 0;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (in.eof()) break;  // no line end: the writer was stopped in the middle
    const Json object = Json::parse(line, nullptr, false);
    const bool ours =
        object.is_object() && object.contains("step") && object["step"].is_number_integer();
    require(ours, ErrorKind::data, path.string(), ":", number,
            " is not a line of metrics; move the file away or mend it");
    if (object["step"].get<std::int64_t>() > last_step) break;
    kept += line.size() + 1;
  }
  return kept;
}

}  // namespace

JsonlSink::JsonlSink(const std::filesystem::path& path, std::optional<std::int64_t> resumed_step)
    : path_(path) {
  if (resumed_step && std::filesystem::exists(path)) {
    const std::uintmax_t kept = kept_bytes(path, *resumed_step);
    std::error_code error;
    std::filesystem::resize_file(path, kept, error);
    require(!error, ErrorKind::io, "cannot shorten ", path.string(), ": ", error.message());
  }
  out_.open(path, std::ios::binary | (resumed_step ? std::ios::app : std::ios::trunc));
  require(out_.is_open(), ErrorKind::io, "cannot write ", path.string(), ": ",
          std::strerror(errno));
}

void JsonlSink::step(const StepMetrics& m) {
  Json line = {{"kind", "step"},
               {"step", m.step},
               {"loss", m.loss},
               {"parts", to_object(m.parts)},
               {"grad_norm", m.grad_norm},
               {"lr", m.lr},
               {"tokens", m.tokens},
               {"seconds", m.seconds},
               {"tokens_per_s", m.tokens_per_s},
               {"memory_bytes", m.memory_bytes}};
  if (m.peak_share) line["peak_share"] = *m.peak_share;
  if (!m.more.empty()) line["more"] = to_object(m.more);
  write(line.dump());
}

void JsonlSink::evaluation(const EvalMetrics& m) {
  const Json line = {{"kind", "eval"},         {"step", m.step},
                     {"loss", m.loss},         {"perplexity", m.perplexity},
                     {"accuracy", m.accuracy}, {"tokens", m.tokens},
                     {"seconds", m.seconds}};
  write(line.dump());
}

void JsonlSink::write(const std::string& line) {
  out_ << line << '\n' << std::flush;
  require(out_.good(), ErrorKind::io, "cannot write ", path_.string(), ": ", std::strerror(errno));
}

}  // namespace fathom::train
