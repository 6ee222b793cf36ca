#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <set>
#include <unistd.h>

#include "checkpoints/safetensors.h"
#include "core/error.h"
#include "core/files.h"

namespace fathom::checkpoints {
namespace {

using nlohmann::json;

/// A file under construction; removed again unless it is committed.
class TemporaryOutput {
 public:
  explicit TemporaryOutput(const std::filesystem::path& path)
      : path_(path),
        temporary_(path.string() + ".tmp"),
        fd_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    require(fd_ >= 0, ErrorKind::io, "cannot create '", temporary_.string(),
            "': ", std::strerror(errno));
  }
  TemporaryOutput(const TemporaryOutput&) = delete;
  TemporaryOutput& operator=(const TemporaryOutput&) = delete;
  ~TemporaryOutput() {
    if (fd_ < 0) return;
    ::close(fd_);
    std::error_code ignored;
    std::filesystem::remove(temporary_, ignored);
  }

  void write(const void* data, std::size_t bytes) {
    files::write_fully(fd_, data, bytes, temporary_);
  }

  void commit() {
    require(::fsync(fd_) == 0 && ::close(fd_) == 0, ErrorKind::io, "cannot finish '",
            temporary_.string(), "': ", std::strerror(errno));
    fd_ = -1;
    files::rename_file(temporary_, path_);
    files::sync_directory(path_.has_parent_path() ? path_.parent_path() : ".");
  }

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_;
};

class FileSink : public SafetensorsSink {
 public:
  FileSink(TemporaryOutput& out, const SafetensorsPlan& plan)
      : out_(out), plan_(plan), left_(plan.bytes()) {}

  void put_bytes(std::span<const std::byte> bytes) override {
    FATHOM_CHECK(bytes.size() <= left_, "tensor '", plan_.name, "' of ", plan_.bytes(),
                 " bytes is given ", bytes.size() - left_, " too many");
    left_ -= bytes.size();
    out_.write(bytes.data(), bytes.size());
  }

  void put(std::span<const float> values) override {
    switch (plan_.element) {
      case Element::f32:
        return put_bytes(std::as_bytes(values));
      case Element::bf16:
        return put_converted<bf16>(values, to_bf16);
      case Element::f64:
        return put_converted<double>(values, [](float x) { return static_cast<double>(x); });
      default:
        FATHOM_CHECK(false, "tensor '", plan_.name, "' of ", to_string(plan_.element),
                     " is given floats");
    }
  }

  void finish() const {
    FATHOM_CHECK(left_ == 0, "tensor '", plan_.name, "' of ", plan_.bytes(), " bytes lacks ",
                 left_);
  }

 private:
  template <typename Out, typename Convert>
  void put_converted(std::span<const float> values, Convert convert) {
    constexpr std::size_t chunk = 1 << 16;
    std::vector<Out> buffer(std::min(chunk, values.size()));
    for (std::size_t i = 0; i < values.size(); i += chunk) {
      const auto part = values.subspan(i, std::min(chunk, values.size() - i));
      std::transform(part.begin(), part.end(), buffer.begin(), convert);
      put_bytes(std::as_bytes(std::span<const Out>(buffer).first(part.size())));
    }
  }

  TemporaryOutput& out_;
  const SafetensorsPlan& plan_;
  std::uint64_t left_;
};

/// The header's JSON, padded with spaces to a multiple of 8 bytes.
std::string make_header(const std::vector<SafetensorsPlan>& plan,
                        std::map<std::string, std::string> metadata) {
  metadata.emplace("format", "pt");
  json header = {{"__metadata__", metadata}};
  std::uint64_t offset = 0;
  for (const SafetensorsPlan& tensor : plan) {
    FATHOM_CHECK(!header.contains(tensor.name), "tensor '", tensor.name, "' is planned twice");
    header[tensor.name] = {{"dtype", to_string(tensor.element)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

/// Consecutive tensors up to the limit; a tensor above it has a file of its own.
std::vector<std::vector<SafetensorsPlan>> split_plan(const std::vector<SafetensorsPlan>& plan,
                                                     std::uint64_t limit) {
  std::vector<std::vector<SafetensorsPlan>> shards(1);
  std::uint64_t used = 0;
  for (const SafetensorsPlan& tensor : plan) {
    if (!shards.back().empty() && used + tensor.bytes() > limit) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(tensor);
    used += tensor.bytes();
  }
  return shards;
}

std::string shard_name(std::size_t index, std::size_t count) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

/// Removes weight files of an earlier export that are not part of this one.
void remove_others(const std::filesystem::path& folder, const std::set<std::string>& keep) {
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    const bool weights = name == "model.safetensors" || name == "model.safetensors.index.json" ||
                         (name.starts_with("model-") && name.ends_with(".safetensors"));
    if (weights && !keep.contains(name)) std::filesystem::remove(item.path());
  }
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::vector<SafetensorsPlan> plan,
                       const SafetensorsFill& fill,
                       const std::map<std::string, std::string>& metadata) {
  files::ignore_file_size_signal();
  std::stable_sort(plan.begin(), plan.end(), [](const auto& a, const auto& b) {
    return size_of(a.element) > size_of(b.element);
  });
  const std::string header = make_header(plan, metadata);
  TemporaryOutput out(path);
  const std::uint64_t length = header.size();
  out.write(&length, sizeof length);
  out.write(header.data(), header.size());
  for (const SafetensorsPlan& tensor : plan) {
    FileSink sink(out, tensor);
    fill(tensor, sink);
    sink.finish();
  }
  out.commit();
}

void write_safetensors_folder(const std::filesystem::path& folder,
                              const std::vector<SafetensorsPlan>& plan, const SafetensorsFill& fill,
                              std::uint64_t shard_bytes) {
  std::filesystem::create_directories(folder);
  const auto shards = split_plan(plan, shard_bytes);
  if (shards.size() == 1) {
    write_safetensors(folder / "model.safetensors", plan, fill);
    remove_others(folder, {"model.safetensors"});
    return;
  }
  json weight_map = json::object();
  std::uint64_t total = 0;
  std::set<std::string> keep = {"model.safetensors.index.json"};
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    write_safetensors(folder / name, shards[i], fill);
    keep.insert(name);
    for (const SafetensorsPlan& tensor : shards[i]) {
      FATHOM_CHECK(!weight_map.contains(tensor.name), "tensor '", tensor.name,
                   "' is planned twice");
      weight_map[tensor.name] = name;
      total += tensor.bytes();
    }
  }
  const json index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  files::write_text_atomically(folder / "model.safetensors.index.json", index.dump(2) + "\n");
  remove_others(folder, keep);
}

}  // namespace fathom::checkpoints
