#pragma once

#include <filesystem>
#include <memory>

#include "data/spans/extractor.h"
#include "data/spans/span_source.h"

namespace fathom::data::spans {

/// The extractor as the rest asks for it: each call parses its texts on the calling thread.
FindSpans find_with(std::shared_ptr<const Extractor> extractor, const Options& options);

/// Who found the spans, by which model and definition, for a span file.
SpanFileInfo describe(const Extractor& extractor, const Options& options);

struct SpanSourceRequest {
  std::filesystem::path file;       ///< span file; empty: spans are found when needed
  std::filesystem::path model;      ///< the extractor's; empty: only the span file is there
  std::filesystem::path tokenizer;  ///< folder; read only with a model
  Options options;
  int threads = 1;
};

/// Opens what the request names and checks that it belongs together. `tokens` may be null where
/// only texts given by their ids are asked for. Throws what SpanFile::open, Extractor,
/// Tokenizer::load and SpanSource throw, and Error(data) for a span file of another definition or
/// of another model than the given one.
std::unique_ptr<SpanSource> open_span_source(const SpanSourceRequest& request,
                                             std::shared_ptr<const TokenFile> tokens);

}  // namespace fathom::data::spans
