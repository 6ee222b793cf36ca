#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizers/aligned_text.h"

namespace fathom::data {

/// A token that is found in the text as it is written, before any merging.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool special = false;      ///< a control token: left out by decode(skip_special)
  bool single_word = false;  ///< only where no word character touches it
  bool lstrip = false;       ///< takes in the white space in front
  bool rstrip = false;       ///< takes in the white space behind
  bool normalized = false;   ///< is looked for in the normalised text
};

/// Finds added tokens, leftmost and then longest first, in time linear in the text.
class AddedTokenMatcher {
 public:
  /// A stretch of the text: an added token, or text between two.
  struct Stretch {
    const AddedToken* token = nullptr;
    Slice slice;
  };

  /// Looks for `spelling`, which is the token's content, normalised where that is wanted.
  void add(const AddedToken& token, std::string_view spelling);

  bool empty() const { return tokens_.empty(); }

  /// Cuts the text into stretches, none of them empty. Special tokens are left in the text unless
  /// `parse_special`.
  std::vector<Stretch> cut(std::string_view text, bool parse_special) const;

 private:
  struct Match {
    const AddedToken* token = nullptr;
    std::uint32_t length = 0;
  };
  Match longest_at(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;
  std::array<bool, 256> first_bytes_{};
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // (node << 8 | byte) -> node
  std::vector<std::int32_t> ends_ = {-1};                   // node -> index in tokens_
};

}  // namespace fathom::data
