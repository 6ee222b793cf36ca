#include "data/spans/open_span_source.h"

#include <utility>

#include "core/error.h"

namespace fathom::data::spans {
namespace {

// Spans of one run must all be of one kind, whether they were found before or are found now.
void require_model(const SpanFile& file, const Extractor& extractor,
                   const std::filesystem::path& model) {
  const SpanFileInfo& info = file.info();
  require(info.model_sha256 == extractor.info().sha256, ErrorKind::data, file.path().string(),
          ": made with the model ", info.model, " of the sha256 ", info.model_sha256, ", ",
          model.string(), " has ", extractor.info().sha256, "; build the spans again");
}

}  // namespace

FindSpans find_with(std::shared_ptr<const Extractor> extractor, const Options& options) {
  return [extractor = std::move(extractor), options](std::span<const std::string_view> texts) {
    return extractor->extract(texts, options, 1);
  };
}

SpanFileInfo describe(const Extractor& extractor, const Options& options) {
  const ModelInfo& model = extractor.info();
  return {.definition = definition_of(options),
          .extractor = "fathom",
          .model = model.package + " " + model.version,
          .model_sha256 = model.sha256};
}

std::unique_ptr<SpanSource> open_span_source(const SpanSourceRequest& request,
                                             std::shared_ptr<const TokenFile> tokens) {
  SpanSource::Parts parts{.tokens = std::move(tokens), .threads = request.threads};
  if (!request.file.empty()) {
    parts.file = SpanFile::open(request.file);
    parts.file->require_definition(request.options);
  }
  if (!request.model.empty()) {
    auto extractor = std::make_shared<const Extractor>(request.model);
    if (parts.file) require_model(*parts.file, *extractor, request.model);
    parts.find = find_with(std::move(extractor), request.options);
    parts.tokenizer = Tokenizer::load(request.tokenizer);
  }
  return std::make_unique<SpanSource>(std::move(parts));
}

}  // namespace fathom::data::spans
