#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/spans/english/attribute_rules.h"
#include "data/spans/english/network.h"
#include "data/spans/english/parser.h"
#include "data/spans/english/phrases.h"
#include "data/spans/english/text_tokenizer.h"
#include "data/spans/english/tree.h"
#include "data/spans/extractor.h"

namespace fathom::data::spans::english {

/// A text with everything that is predicted of it.
struct Parsed {
  std::vector<Word> words;
  std::vector<std::uint8_t> tags;
  std::vector<Pos> pos;
  Tree tree;
};

/// Buffers and caches of one thread at work.
struct Workspace {
  TextTokenizer::Cache cache;
  TokenVectors vectors;
};

/// Workspaces for as many threads as come, each used by one at a time.
class WorkspacePool {
 public:
  /// Gives the workspace back when it goes out of scope.
  class Lease {
   public:
    explicit Lease(WorkspacePool& pool) : pool_(pool), workspace_(pool.take()) {}
    ~Lease() { pool_.give_back(std::move(workspace_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Workspace& operator*() const { return *workspace_; }

   private:
    WorkspacePool& pool_;
    std::unique_ptr<Workspace> workspace_;
  };

 private:
  std::unique_ptr<Workspace> take();
  void give_back(std::unique_ptr<Workspace> workspace);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> idle_;
};

/// The stages of the model in their order.
struct Pipeline {
  explicit Pipeline(const ModelFile& model);

  /// Parses a batch of texts of valid UTF-8. The words of the result point into the workspace,
  /// until its next use.
  std::vector<Parsed> parse(std::span<const std::string_view> texts, Workspace& workspace) const;

  ModelInfo info;
  std::vector<std::string> tags;
  Labels labels;
  Lexicon lexicon;
  TextTokenizer tokenizer;
  Tok2Vec tok2vec;
  Tagger tagger;
  Parser parser;
  AttributeRules rules;
  PhraseFinder phrases;
  mutable WorkspacePool workspaces;  // no result depends on what is in them
};

/// Spans of a parsed text, in bytes of it.
TextSpans spans_of(const Parsed& parsed, const PhraseFinder& finder, const Options& options);

}  // namespace fathom::data::spans::english
