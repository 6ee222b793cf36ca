#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizers/aligned_text.h"

namespace fathom::data {

/// A rewriting of the text before it is cut into words. Immutable, safe from several threads.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual AlignedText apply(AlignedText text) const = 0;
  /// Everything that decides the outcome, for the fingerprint.
  virtual std::string describe() const = 0;
};

using NormalizerList = std::vector<std::unique_ptr<const Normalizer>>;

/// Unicode normalisation form C. A composed character keeps the source of its first component, and
/// one that was split off the source of the character before it.
std::unique_ptr<const Normalizer> make_nfc();

/// Puts `prefix` in front of a text that is not empty; it shares the first character's source.
std::unique_ptr<const Normalizer> make_prepend(std::string prefix);

/// Replaces each occurrence of `pattern` (not empty), left to right; the replacement has the source
/// of the last replaced character.
std::unique_ptr<const Normalizer> make_replace(std::string pattern, std::string replacement);

/// The text after all normalizers, in order.
AlignedText normalize(const NormalizerList& list, AlignedText text);

}  // namespace fathom::data
