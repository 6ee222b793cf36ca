#pragma once

#include <memory>
#include <string>
#include <vector>

namespace fathom::data {

/// A step from token strings back to text. Immutable, safe from several threads.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// The pieces of text that the tokens stand for; joined, they are the text.
  virtual std::vector<std::string> apply(std::vector<std::string> pieces) const = 0;
  /// Bytes of one piece in the middle of a text, which need not be valid UTF-8.
  virtual std::string bytes(std::string piece) const = 0;
};

using DecoderList = std::vector<std::unique_ptr<const Decoder>>;

/// GPT-2's byte alphabet; a piece outside it stands for itself. Invalid UTF-8 of the joined bytes
/// becomes U+FFFD.
std::unique_ptr<const Decoder> make_byte_level_decoder();

/// Replaces each occurrence of `pattern` (not empty).
std::unique_ptr<const Decoder> make_replace_decoder(std::string pattern, std::string replacement);

/// "<0xNN>" pieces become bytes. A run of them that is not valid UTF-8 becomes one U+FFFD for each
/// of its bytes.
std::unique_ptr<const Decoder> make_byte_fallback_decoder();

/// Joins all pieces into one.
std::unique_ptr<const Decoder> make_fuse_decoder();

/// Removes up to `start` and `stop` times the character from the ends of each piece.
std::unique_ptr<const Decoder> make_strip_decoder(std::string character, std::size_t start,
                                                  std::size_t stop);

/// "▁" becomes a space, but nothing in the first piece if the encoder `prepends` one.
std::unique_ptr<const Decoder> make_metaspace_decoder(bool prepends);

}  // namespace fathom::data
