#include "data/tokenizers/normalizer.h"

#include <utility>

namespace fathom::data {
namespace {

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}

  AlignedText apply(AlignedText text) const override {
    if (text.size() == 0) return text;
    AlignedTextBuilder builder(text);
    builder.put(prefix_, text.source({0, 1}));
    builder.keep({0, text.size()});
    return std::move(builder).build();
  }

  std::string describe() const override { return "prepend " + prefix_; }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(std::string pattern, std::string replacement)
      : pattern_(std::move(pattern)), replacement_(std::move(replacement)) {}

  AlignedText apply(AlignedText text) const override {
    std::size_t found = text.text().find(pattern_);
    if (found == std::string::npos) return text;
    AlignedTextBuilder builder(text);
    std::uint32_t at = 0;
    for (; found != std::string::npos; found = text.text().find(pattern_, at)) {
      const auto begin = static_cast<std::uint32_t>(found);
      const auto end = static_cast<std::uint32_t>(found + pattern_.size());
      builder.keep({at, begin});
      builder.put(replacement_, text.source({end - 1, end}));
      at = end;
    }
    builder.keep({at, text.size()});
    return std::move(builder).build();
  }

  std::string describe() const override { return "replace " + pattern_ + " by " + replacement_; }

 private:
  std::string pattern_;
  std::string replacement_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_prepend(std::string prefix) {
  return std::make_unique<Prepend>(std::move(prefix));
}

std::unique_ptr<const Normalizer> make_replace(std::string pattern, std::string replacement) {
  return std::make_unique<Replace>(std::move(pattern), std::move(replacement));
}

AlignedText normalize(const NormalizerList& list, AlignedText text) {
  for (const auto& normalizer : list) text = normalizer->apply(std::move(text));
  return text;
}

}  // namespace fathom::data
