#include "data/tokenizers/decoder.h"

#include <charconv>
#include <optional>

#include "data/tokenizers/byte_alphabet.h"
#include "data/tokenizers/unicode.h"

namespace fathom::data {
namespace {

using Pieces = std::vector<std::string>;

std::string join(const Pieces& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

std::string replace_all(const std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t at = 0;
  for (auto found = text.find(from); found != std::string::npos; found = text.find(from, at)) {
    out.append(text, at, found - at).append(to);
    at = found + from.size();
  }
  return out.append(text, at);
}

class ByteLevel : public Decoder {
 public:
  Pieces apply(Pieces pieces) const override {
    for (std::string& piece : pieces) piece = bytes(std::move(piece));
    return {replace_invalid_utf8(join(pieces))};
  }
  std::string bytes(std::string piece) const override {
    return bytes_of_token(piece).value_or(piece);
  }
};

class Replace : public Decoder {
 public:
  Replace(std::string pattern, std::string replacement)
      : pattern_(std::move(pattern)), replacement_(std::move(replacement)) {}
  Pieces apply(Pieces pieces) const override {
    for (std::string& piece : pieces) piece = bytes(std::move(piece));
    return pieces;
  }
  std::string bytes(std::string piece) const override {
    return replace_all(piece, pattern_, replacement_);
  }

 private:
  std::string pattern_;
  std::string replacement_;
};

class ByteFallback : public Decoder {
 public:
  Pieces apply(Pieces pieces) const override {
    Pieces out;
    std::string run;
    const auto end_run = [&] {
      if (run.empty()) return;
      if (!find_invalid_utf8(run)) {
        out.push_back(run);
      } else {
        out.insert(out.end(), run.size(), "\uFFFD");
      }
      run.clear();
    };
    for (std::string& piece : pieces) {
      if (const auto byte = byte_of(piece)) {
        run.push_back(*byte);
        continue;
      }
      end_run();
      out.push_back(std::move(piece));
    }
    end_run();
    return out;
  }
  std::string bytes(std::string piece) const override {
    const auto byte = byte_of(piece);
    return byte ? std::string(1, *byte) : piece;
  }

 private:
  static std::optional<char> byte_of(const std::string& piece) {
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
    unsigned value = 0;
    const char* digits = piece.data() + 3;
    const auto [end, error] = std::from_chars(digits, digits + 2, value, 16);
    if (error != std::errc() || end != digits + 2) return std::nullopt;
    return static_cast<char>(value);
  }
};

class Fuse : public Decoder {
 public:
  Pieces apply(Pieces pieces) const override { return {join(pieces)}; }
  std::string bytes(std::string piece) const override { return piece; }
};

class Strip : public Decoder {
 public:
  Strip(std::string character, std::size_t start, std::size_t stop)
      : character_(std::move(character)), start_(start), stop_(stop) {}
  Pieces apply(Pieces pieces) const override {
    for (std::string& piece : pieces) {
      for (std::size_t i = 0; i < start_ && piece.starts_with(character_); ++i) {
        piece.erase(0, character_.size());
      }
      for (std::size_t i = 0; i < stop_ && piece.ends_with(character_); ++i) {
        piece.erase(piece.size() - character_.size());
      }
    }
    return pieces;
  }
  std::string bytes(std::string piece) const override { return piece; }

 private:
  std::string character_;
  std::size_t start_;
  std::size_t stop_;
};

class Metaspace : public Decoder {
 public:
  explicit Metaspace(bool prepends) : prepends_(prepends) {}
  Pieces apply(Pieces pieces) const override {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      pieces[i] = replace_all(pieces[i], "▁", i == 0 && prepends_ ? "" : " ");
    }
    return pieces;
  }
  std::string bytes(std::string piece) const override { return replace_all(piece, "▁", " "); }

 private:
  bool prepends_;
};

}  // namespace

std::unique_ptr<const Decoder> make_byte_level_decoder() {
  return std::make_unique<ByteLevel>();
}

std::unique_ptr<const Decoder> make_replace_decoder(std::string pattern, std::string replacement) {
  return std::make_unique<Replace>(std::move(pattern), std::move(replacement));
}

std::unique_ptr<const Decoder> make_byte_fallback_decoder() {
  return std::make_unique<ByteFallback>();
}

std::unique_ptr<const Decoder> make_fuse_decoder() {
  return std::make_unique<Fuse>();
}

std::unique_ptr<const Decoder> make_strip_decoder(std::string character, std::size_t start,
                                                  std::size_t stop) {
  return std::make_unique<Strip>(std::move(character), start, stop);
}

std::unique_ptr<const Decoder> make_metaspace_decoder(bool prepends) {
  return std::make_unique<Metaspace>(prepends);
}

}  // namespace fathom::data
