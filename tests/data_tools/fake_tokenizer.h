#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/tokenizers/tokenizer.h"

namespace fathom::data {

/// A tokenizer that a test can follow by eye: a byte is its own id, "\n\n" is one token (so that a
/// prompt's end may merge with the response), and specials follow.
class FakeTokenizer : public Tokenizer {
 public:
  static constexpr std::int32_t kDoubleBreak = 256;
  static constexpr std::int32_t kBos = 257;
  static constexpr std::int32_t kEos = 258;
  static constexpr std::int32_t kMessageStart = 259;
  static constexpr std::int32_t kMessageEnd = 260;

  std::string template_text;
  bool has_bos = true;
  bool has_eos = true;
  bool has_message_tokens = true;
  bool adds_bos = false;

  Encoding encode(std::string_view text, bool parse_special) const override {
    Encoding result;
    for (std::size_t at = 0; at < text.size();) {
      const auto [id, length] = match(text.substr(at), parse_special);
      result.ids.push_back(id);
      result.offsets.push_back(
          {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + length)});
      at += length;
    }
    return result;
  }
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    std::string text;
    for (std::int32_t id : ids) {
      if (!(skip_special && is_special(id))) text += token_bytes(id);
    }
    return text;
  }
  std::string token_bytes(std::int32_t id) const override {
    if (id < 256) return std::string(1, static_cast<char>(id));
    return kTexts[static_cast<std::size_t>(id) - 256];
  }
  std::int32_t vocab_size() const override { return 261; }
  std::optional<std::int32_t> token_id(std::string_view token) const override {
    for (std::int32_t id = kBos; id < vocab_size(); ++id) {
      if (token == kTexts[static_cast<std::size_t>(id) - 256] &&
          (has_message_tokens || id < kMessageStart)) {
        return id;
      }
    }
    return std::nullopt;
  }
  bool is_special(std::int32_t id) const override { return id >= kBos; }
  std::span<const std::int32_t> prefix_ids() const override {
    return std::span(kPrefix).first(adds_bos ? 1 : 0);
  }
  std::span<const std::int32_t> suffix_ids() const override { return {}; }
  std::optional<std::int32_t> bos_id() const override {
    return has_bos ? std::optional(kBos) : std::nullopt;
  }
  std::optional<std::int32_t> eos_id() const override {
    return has_eos ? std::optional(kEos) : std::nullopt;
  }
  std::string fingerprint() const override { return "0123456789abcdef"; }
  const std::string& chat_template() const override { return template_text; }

 private:
  static constexpr std::array<std::int32_t, 1> kPrefix{kBos};
  inline static const std::array<std::string, 5> kTexts{"\n\n", "<s>", "</s>", "<|im_start|>",
                                                        "<|im_end|>"};

  static std::pair<std::int32_t, std::size_t> match(std::string_view text, bool parse_special) {
    for (std::size_t i = 0; i < kTexts.size(); ++i) {
      if ((i == 0 || parse_special) && text.starts_with(kTexts[i])) {
        return {static_cast<std::int32_t>(256 + i), kTexts[i].size()};
      }
    }
    return {static_cast<unsigned char>(text[0]), 1};
  }
};

}  // namespace fathom::data
