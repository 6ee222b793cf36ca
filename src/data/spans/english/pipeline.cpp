#include "data/spans/english/pipeline.h"

namespace fathom::data::spans::english {

std::unique_ptr<Workspace> WorkspacePool::take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Workspace>();
  auto workspace = std::move(idle_.back());
  idle_.pop_back();
  return workspace;
}

void WorkspacePool::give_back(std::unique_ptr<Workspace> workspace) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(workspace));
}

Pipeline::Pipeline(const ModelFile& model)
    : info(model.info),
      tags(model.tags),
      lexicon(model),
      tokenizer(model, lexicon),
      tok2vec(model, lexicon),
      tagger(model),
      parser(model, labels),
      rules(model, lexicon, labels),
      phrases(labels) {}

std::vector<Parsed> Pipeline::parse(std::span<const std::string_view> texts,
                                    Workspace& workspace) const {
  workspace.cache.trim();
  std::vector<std::vector<Word>> words;
  std::vector<std::size_t> tokens;
  for (const std::string_view text : texts) {
    words.push_back(tokenizer.tokenize(text, workspace.cache));
    tokens.push_back(words.back().size());
  }
  tok2vec.run(words, workspace.vectors);
  const std::vector<Arcs> arcs = parser.run(workspace.vectors, tokens);

  std::vector<Parsed> out(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Parsed& parsed = out[i];
    parsed.words = std::move(words[i]);
    std::vector<bool> is_space;
    for (const Word& word : parsed.words) is_space.push_back(word.lexeme->is_space);
    parsed.tags = tagger.run(workspace.vectors, i, tokens[i]);
    parsed.tree = make_tree(arcs[i], labels, is_space);
    parsed.pos = rules.apply(parsed.words, parsed.tags, parsed.tree.label);
  }
  return out;
}

namespace {

std::vector<ByteRange> all_words(const std::vector<Word>& words) {
  std::vector<ByteRange> out;
  for (const Word& word : words)
    if (!word.lexeme->is_space) out.push_back({word.begin, word.end});
  return out;
}

std::vector<ByteRange> words_in_phrases(const std::vector<Word>& words,
                                        const std::vector<TokenPhrase>& phrases) {
  // Phrases may overlap in part: a word reaches the next one's begin if some phrase holds both.
  std::vector<std::uint32_t> ends(words.size());
  for (const TokenPhrase& phrase : phrases)
    for (std::uint32_t t = phrase.begin; t < phrase.end; ++t)
      ends[t] = std::max(ends[t], t + 1 < phrase.end ? words[t + 1].begin : words[t].end);
  std::vector<ByteRange> out;
  for (std::size_t t = 0; t < words.size(); ++t)
    if (ends[t] != 0 && !words[t].lexeme->is_space) out.push_back({words[t].begin, ends[t]});
  return out;
}

}  // namespace

TextSpans spans_of(const Parsed& parsed, const PhraseFinder& finder, const Options& options) {
  const auto phrases = finder.find(parsed.tree, parsed.pos, options.verb);
  TextSpans out;
  out.words = options.words == Words::all ? all_words(parsed.words)
                                          : words_in_phrases(parsed.words, phrases);
  for (const TokenPhrase& phrase : phrases)
    out.phrases.push_back(
        {{parsed.words[phrase.begin].begin, parsed.words[phrase.end - 1].end}, phrase.kind});
  return out;
}

}  // namespace fathom::data::spans::english
