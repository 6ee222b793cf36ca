#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/files.h"
#include "core/h5.h"
#include "data/fingerprint.h"
#include "data/token_file.h"
#include "data/token_file_layout.h"

namespace fathom::data {
namespace {

constexpr std::size_t kCopyIds = std::size_t{1} << 20;

template <typename T>
std::string hash_of(std::span<const T> values) {
  Fingerprint hash;
  hash.update(values);
  return hash.hex();
}

}  // namespace

std::string layout::content_fingerprint(const TokenFileInfo& info, const std::string& ids_hash,
                                        std::span<const std::int64_t> offsets,
                                        std::span<const std::int32_t> prompt_lengths,
                                        std::span<const std::int64_t> sources) {
  return fingerprint_of(str(kFormatName, '\n', kVersionNumber, '\n', info.vocab_size, '\n',
                            info.eos_id, '\n', info.block, '\n', info.template_name, '\n',
                            info.tokenizer, '\n', info.template_text, '\n', info.source, '\n',
                            ids_hash, '\n', hash_of(offsets), '\n', hash_of(prompt_lengths), '\n',
                            hash_of(sources), '\n'));
}

/// The ids so far, on disk beside the target.
struct TokenFileWriter::Spill {
  std::filesystem::path path;
  std::fstream stream;
  Fingerprint hash;

  void fail_io(const char* doing) const {
    fail(ErrorKind::io, path.string(), ": cannot ", doing, ": ", std::strerror(errno));
  }
};

TokenFileWriter::TokenFileWriter(std::filesystem::path path, TokenFileInfo info)
    : path_(std::move(path)), info_(std::move(info)), spill_(std::make_unique<Spill>()) {
  require(info_.vocab_size > 0, ErrorKind::data, path_.string(), ": vocabulary of ",
          info_.vocab_size, " ids; at least one expected");
  files::ignore_file_size_signal();
  spill_->path = path_.string() + ".ids.tmp";
  spill_->stream.open(spill_->path,
                      std::ios::in | std::ios::out | std::ios::trunc | std::ios::binary);
  if (!spill_->stream) spill_->fail_io("create");
}

TokenFileWriter::~TokenFileWriter() {
  spill_->stream.close();
  std::error_code ignored;
  std::filesystem::remove(spill_->path, ignored);
  std::filesystem::remove(path_.string() + ".tmp", ignored);
}

void TokenFileWriter::append(std::span<const std::int32_t> ids, std::int32_t prompt_length,
                             std::int64_t source) {
  const auto length = static_cast<std::int64_t>(ids.size());
  require(length >= 2, ErrorKind::data, path_.string(), ": record ", records(), " has ", length,
          " ids; two are needed to predict one");
  require(prompt_length >= 0 && prompt_length < length, ErrorKind::data, path_.string(),
          ": record ", records(), " of ", length, " ids has prompt length ", prompt_length);
  for (std::int32_t id : ids) {
    require(id >= 0 && id < info_.vocab_size, ErrorKind::data, path_.string(), ": record ",
            records(), " has id ", id, "; 0 to ", info_.vocab_size - 1, " expected");
  }
  spill_->stream.write(reinterpret_cast<const char*>(ids.data()),
                       static_cast<std::streamsize>(ids.size_bytes()));
  if (!spill_->stream) spill_->fail_io("write");
  spill_->hash.update(ids);
  offsets_.push_back(offsets_.back() + length);
  prompt_lengths_.push_back(prompt_length);
  sources_.push_back(source);
}

void TokenFileWriter::copy_ids(h5::File& file) {
  const auto total = static_cast<std::uint64_t>(ids());
  file.create_dataset(layout::kIds, h5::Type::i32, {total});
  spill_->stream.flush();
  spill_->stream.seekg(0);
  std::vector<std::int32_t> chunk(std::min<std::uint64_t>(kCopyIds, total));
  for (std::uint64_t begin = 0; begin < total; begin += chunk.size()) {
    const std::uint64_t count = std::min<std::uint64_t>(chunk.size(), total - begin);
    spill_->stream.read(reinterpret_cast<char*>(chunk.data()),
                        static_cast<std::streamsize>(count * sizeof(std::int32_t)));
    if (!spill_->stream) spill_->fail_io("read back");
    file.write_part(layout::kIds, h5::Type::i32, {begin}, {count}, chunk.data());
  }
}

std::string TokenFileWriter::finish(const std::string& source) {
  require(records() > 0, ErrorKind::data, path_.string(), ": no record to write");
  info_.source = source;
  info_.content =
      layout::content_fingerprint(info_, spill_->hash.hex(), offsets_, prompt_lengths_, sources_);
  const std::filesystem::path temporary = path_.string() + ".tmp";
  h5::File file = h5::File::create(temporary);
  file.set_attribute("/", layout::kFormat, std::string_view(layout::kFormatName));
  file.set_attribute("/", layout::kVersion, layout::kVersionNumber);
  file.set_attribute("/", layout::kVocabSize, std::int64_t{info_.vocab_size});
  file.set_attribute("/", layout::kEosId, std::int64_t{info_.eos_id});
  file.set_attribute("/", layout::kBlock, info_.block);
  file.set_attribute("/", layout::kTemplateName, info_.template_name);
  file.set_attribute("/", layout::kTokenizer, info_.tokenizer);
  file.set_attribute("/", layout::kTemplateText, info_.template_text);
  file.set_attribute("/", layout::kSource, info_.source);
  file.set_attribute("/", layout::kContent, info_.content);
  file.write(layout::kOffsets, offsets_);
  file.write(layout::kPromptLengths, prompt_lengths_);
  file.write(layout::kSources, sources_);
  copy_ids(file);
  file.close();
  files::rename_file(temporary, path_);
  return info_.content;
}

}  // namespace fathom::data
