#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::data {

/// Half-open range of bytes of the original text.
struct ByteRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// Token ids and, for each, the bytes of the input that it covers, always whole characters: tokens
/// that share one multi-byte character share its range. Where form C joins several characters, the
/// range is the first one's. All as in Hugging Face's encodings, but in bytes.
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<ByteRange> offsets;
};

/// A trained tokenizer, immutable and safe to use from several threads. Loaded from a Hugging Face
/// folder (tokenizer.json, or vocab.json with merges.txt, or tokenizer.model) or one such file.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Throws Error(io) for a missing file and Error(data) for one that cannot be understood.
  static std::unique_ptr<Tokenizer> load(const std::filesystem::path& path);

  /// Tokens of the text alone, nothing added around them. Special tokens written out in the text
  /// are recognised when `parse_special`. Characters that the vocabulary cannot express at all give
  /// no token. Linear in the length of the text (n log n in that of one word). Throws Error(data)
  /// with the byte offset of the first invalid UTF-8 sequence, and for a text of 2 GiB or more.
  virtual Encoding encode(std::string_view text, bool parse_special = true) const = 0;

  /// Text of the ids; ids out of range throw Error(data). Invalid UTF-8 becomes U+FFFD. Models that
  /// put a space in front of each text lose it here again.
  virtual std::string decode(std::span<const std::int32_t> ids, bool skip_special) const = 0;

  /// Bytes that an id contributes in the middle of a text: what streaming output concatenates.
  virtual std::string token_bytes(std::int32_t id) const = 0;

  /// One past the largest id, added tokens included.
  virtual std::int32_t vocab_size() const = 0;
  virtual std::optional<std::int32_t> token_id(std::string_view token) const = 0;
  virtual bool is_special(std::int32_t id) const = 0;

  /// Ids that the model's convention puts around a text ("<s>" before LLaMA's, "</s>" before
  /// OPT's).
  virtual std::span<const std::int32_t> prefix_ids() const = 0;
  virtual std::span<const std::int32_t> suffix_ids() const = 0;
  virtual std::optional<std::int32_t> bos_id() const = 0;
  virtual std::optional<std::int32_t> eos_id() const = 0;

  /// xxh64 (16 hex digits) over everything that decides ids, prefix and suffix included: equal for
  /// equal behaviour, whatever the file form.
  virtual std::string fingerprint() const = 0;

  /// The Jinja text of chat_template.jinja or else of tokenizer_config.json's chat_template; empty
  /// if there is none.
  virtual const std::string& chat_template() const = 0;
};

}  // namespace fathom::data
