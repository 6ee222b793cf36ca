#include "data/tokenizers/pre_tokenizer.h"

#include <utility>

#include "core/error.h"

namespace fathom::data {
namespace {

constexpr std::string_view kMetaspace = "▁";

std::string_view view(const WordList& list, Slice word) {
  return std::string_view(list.text.text()).substr(word.begin, word.end - word.begin);
}

class Split : public PreTokenizer {
 public:
  explicit Split(Regex pattern) : pattern_(std::move(pattern)) {}

  void apply(WordList& list) const override {
    std::vector<Slice> pieces;
    for (const Slice word : list.words) pattern_.isolate(view(list, word), word.begin, pieces);
    list.words = std::move(pieces);
  }

  std::string describe() const override { return "split " + pattern_.pattern(); }

 private:
  Regex pattern_;
};

class PrefixSpace : public PreTokenizer {
 public:
  void apply(WordList& list) const override {
    AlignedTextBuilder builder(list.text);
    for (Slice& word : list.words) {
      const std::uint32_t begin = builder.size();
      if (!view(list, word).starts_with(' ')) {
        builder.put(" ", list.text.source({word.begin, word.begin + 1}));
      }
      builder.keep(word);
      word = {begin, builder.size()};
    }
    list.text = std::move(builder).build();
  }

  std::string describe() const override { return "prefix space"; }
};

class Metaspace : public PreTokenizer {
 public:
  Metaspace(PrependScheme scheme, bool split) : scheme_(scheme), split_(split) {}

  void apply(WordList& list) const override {
    AlignedTextBuilder builder(list.text);
    std::vector<Slice> words;
    for (const Slice word : list.words) {
      std::uint32_t begin = builder.size();
      if (needs_prefix(list, word)) {
        builder.put(kMetaspace, list.text.source({word.begin, word.begin + 1}));
      }
      for (std::uint32_t at = word.begin; at < word.end; ++at) {
        const bool space = list.text.text()[at] == ' ';
        const bool mark = space || view(list, {at, word.end}).starts_with(kMetaspace);
        if (split_ && mark && builder.size() > begin) {
          words.push_back({begin, builder.size()});
          begin = builder.size();
        }
        if (space) {
          builder.put(kMetaspace, list.text.source({at, at + 1}));
        } else {
          builder.keep({at, at + 1});
        }
      }
      words.push_back({begin, builder.size()});
    }
    list.text = std::move(builder).build();
    list.words = std::move(words);
  }

  std::string describe() const override {
    return str("metaspace ", static_cast<int>(scheme_), split_ ? " split" : "");
  }

 private:
  bool needs_prefix(const WordList& list, Slice word) const {
    const std::string_view text = view(list, word);
    if (text.starts_with(' ') || text.starts_with(kMetaspace)) return false;
    if (scheme_ == PrependScheme::first) {
      return list.text.source({word.begin, word.begin + 1}).begin == 0;
    }
    return scheme_ == PrependScheme::always;
  }

  PrependScheme scheme_;
  bool split_;
};

}  // namespace

WordList::WordList(AlignedText whole) : text(std::move(whole)) {
  if (text.size() > 0) words.push_back({0, text.size()});
}

std::unique_ptr<const PreTokenizer> make_split(Regex pattern) {
  return std::make_unique<Split>(std::move(pattern));
}

std::unique_ptr<const PreTokenizer> make_prefix_space() {
  return std::make_unique<PrefixSpace>();
}

std::unique_ptr<const PreTokenizer> make_metaspace(PrependScheme scheme, bool split) {
  return std::make_unique<Metaspace>(scheme, split);
}

}  // namespace fathom::data
