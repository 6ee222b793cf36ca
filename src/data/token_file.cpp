#include "data/token_file.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/h5.h"
#include "data/fingerprint.h"
#include "data/token_file_layout.h"

namespace fathom::data {
namespace {

constexpr std::size_t kCheckIds = std::size_t{1} << 20;

// A sound-looking path that HDF5 refuses is a damaged or foreign file: bad data, not a bad disk.
h5::File open_h5(const std::filesystem::path& path) {
  require(std::filesystem::exists(path), ErrorKind::io, path.string(),
          ": no such token file; `fathom tokenize` makes one");
  try {
    return h5::File::open(path);
  } catch (const Error& error) {
    fail(ErrorKind::data, path.string(), ": not an HDF5 file, or a truncated one: ", error.what());
  }
}

void require_attribute(const h5::File& file, const char* name) {
  require(file.has_attribute("/", name), ErrorKind::data, file.path().string(), ": attribute '",
          name, "' is missing; `fathom tokenize` makes token files");
}

std::string text(const h5::File& file, const char* name) {
  require_attribute(file, name);
  return file.text_attribute("/", name);
}

std::int64_t number(const h5::File& file, const char* name) {
  require_attribute(file, name);
  return file.int_attribute("/", name);
}

std::int32_t number32(const h5::File& file, const char* name) {
  const std::int64_t value = number(file, name);
  require(std::in_range<std::int32_t>(value), ErrorKind::data, file.path().string(),
          ": attribute '", name, "' is ", value, "; 32 bits expected");
  return static_cast<std::int32_t>(value);
}

TokenFileInfo read_info(const h5::File& file) {
  const std::string format = text(file, layout::kFormat);
  require(format == layout::kFormatName, ErrorKind::data, file.path().string(), ": format '",
          format, "', not '", layout::kFormatName, "'");
  const std::int64_t version = number(file, layout::kVersion);
  require(version == layout::kVersionNumber, ErrorKind::data, file.path().string(),
          ": format version ", version, ", this program reads ", layout::kVersionNumber,
          "; tokenize the source again");
  TokenFileInfo info;
  info.vocab_size = number32(file, layout::kVocabSize);
  info.eos_id = number32(file, layout::kEosId);
  info.block = number(file, layout::kBlock);
  info.template_name = text(file, layout::kTemplateName);
  info.tokenizer = text(file, layout::kTokenizer);
  info.template_text = text(file, layout::kTemplateText);
  info.source = text(file, layout::kSource);
  info.content = text(file, layout::kContent);
  for (const char* name :
       {layout::kIds, layout::kOffsets, layout::kPromptLengths, layout::kSources}) {
    require(file.exists(name), ErrorKind::data, file.path().string(), ": dataset '", name,
            "' is missing; `fathom tokenize` makes token files");
  }
  return info;
}

}  // namespace

TokenFile TokenFile::open(const std::filesystem::path& path, Check check) {
  TokenFile result;
  result.path_ = path;
  const h5::File file = open_h5(path);
  result.info_ = read_info(file);
  result.offsets_ = file.read<std::int64_t>(layout::kOffsets);
  result.prompt_lengths_ = file.read<std::int32_t>(layout::kPromptLengths);
  result.sources_ = file.read<std::int64_t>(layout::kSources);
  result.ids_ = MappedIds(file, layout::kIds);
  result.check_index();
  if (check == Check::all) result.check_content();
  return result;
}

void TokenFile::check_index() const {
  const std::string where = path_.string();
  require(info_.vocab_size > 0, ErrorKind::data, where, ": vocab_size ", info_.vocab_size,
          ", must be positive");
  require(records() > 0, ErrorKind::data, where, ": holds no record");
  require(
      offsets_.size() == prompt_lengths_.size() + 1 && sources_.size() == prompt_lengths_.size(),
      ErrorKind::data, where, ": ", offsets_.size(), " offsets and ", sources_.size(),
      " sources for ", records(), " prompt lengths; one more offset and equal sources expected");
  const auto total = static_cast<std::int64_t>(ids_.ids().size());
  require(offsets_.front() == 0 && offsets_.back() == total, ErrorKind::data, where,
          ": offsets run from ", offsets_.front(), " to ", offsets_.back(), ", the ids from 0 to ",
          total);
  for (std::int64_t r = 0; r < records(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    // Compared, not subtracted: a damaged offset may be anything.
    require(offsets_[i + 1] > offsets_[i] && offsets_[i + 1] <= total &&
                offsets_[i + 1] - offsets_[i] >= 2,
            ErrorKind::data, where, ": record ", r, " spans ids ", offsets_[i], " to ",
            offsets_[i + 1], "; at least two of ", total, " ids, in order, expected");
    require(prompt_lengths_[i] >= 0 && prompt_lengths_[i] < length(r), ErrorKind::data, where,
            ": record ", r, " has prompt length ", prompt_lengths_[i], "; from 0 to ",
            length(r) - 1, " expected");
  }
}

void TokenFile::check_content() const {
  const std::span<const std::int32_t> ids = ids_.ids();
  Fingerprint ids_hash;
  for (std::size_t begin = 0; begin < ids.size(); begin += kCheckIds) {
    const auto chunk = ids.subspan(begin, std::min(kCheckIds, ids.size() - begin));
    ids_hash.update(chunk);
    const auto bad = std::find_if(chunk.begin(), chunk.end(), [&](std::int32_t id) {
      return id < 0 || id >= info_.vocab_size;
    });
    if (bad == chunk.end()) continue;
    const auto at = static_cast<std::int64_t>(begin) + (bad - chunk.begin());
    const auto record = std::upper_bound(offsets_.begin(), offsets_.end(), at) - offsets_.begin();
    fail(ErrorKind::data, path_.string(), ": record ", record - 1, ": id ", *bad, " at offset ", at,
         "; 0 to ", info_.vocab_size - 1, " expected");
  }
  const std::string actual =
      layout::content_fingerprint(info_, ids_hash.hex(), offsets_, prompt_lengths_, sources_);
  require(actual == info_.content, ErrorKind::data, path_.string(), ": content fingerprint ",
          actual, ", the file says ", info_.content,
          "; it was changed or damaged since it was written: tokenize the source again");
}

TokenRecord TokenFile::record(std::int64_t index) const {
  const auto begin = static_cast<std::size_t>(offsets_.at(static_cast<std::size_t>(index)));
  return {ids_.ids().subspan(begin, static_cast<std::size_t>(length(index))), prompt_length(index)};
}

}  // namespace fathom::data
