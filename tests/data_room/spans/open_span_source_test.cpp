// Spans of a token file by its span file and by the extractor itself, opened as training opens
// them.
#include "data/spans/open_span_source.h"

#include "tests/data_room/spans/english/model.h"
#include "tests/data_room/token_fixture.h"

namespace fathom::data::spans {
namespace {

using testing::kSpanModel;

class OpenSpanSource : public TokenFixture {
 protected:
  static constexpr const char* kTokenizer = FATHOM_SOURCE_DIR "/data_tools/samples/shakespeare";

  /// A token file of two exchanges.
  std::shared_ptr<const TokenFile> write_text() const {
    const auto tokenizer = Tokenizer::load(kTokenizer);
    TokenFileInfo about = info(tokenizer->vocab_size());
    about.tokenizer = tokenizer->fingerprint();
    TokenFileWriter writer(folder_ / "text.h5", about);
    for (const auto& [prompt, response] :
         {std::pair("Where has the king gone?\n", "He has quickly gone to the old castle."),
          std::pair("Who speaks?\n", "A tired soldier speaks, and the crowd is listening.")}) {
      std::vector<std::int32_t> ids = tokenizer->encode(prompt).ids;
      const auto prompt_length = static_cast<std::int32_t>(ids.size());
      const auto rest = tokenizer->encode(response).ids;
      ids.insert(ids.end(), rest.begin(), rest.end());
      writer.append(ids, prompt_length);
    }
    writer.finish("s");
    return std::make_shared<const TokenFile>(TokenFile::open(folder_ / "text.h5"));
  }

  std::filesystem::path write_spans(const TokenFile& tokens, SpanFileInfo about,
                                    SpanSource& source) const {
    about.tokenizer = tokens.info().tokenizer;
    about.tokens = tokens.info().content;
    SpanFileWriter writer(folder_ / "spans.h5", about);
    for (std::int64_t r = 0; r < tokens.records(); ++r)
      writer.append(tokens.record(r).ids, source.get(r, tokens.length(r)));
    writer.finish();
    return folder_ / "spans.h5";
  }
};

TEST_F(OpenSpanSource, FileAndExtractorGiveTheSame) {
  const auto tokens = write_text();
  SpanSourceRequest request{
      .file = {}, .model = kSpanModel, .tokenizer = kTokenizer, .options = {}};
  const auto found = open_span_source(request, tokens);
  const TokenSpans first = found->get(0, 1000);
  EXPECT_GT(first.words.size(), 10u);
  EXPECT_GE(first.phrases.size(), 4u);
  TokenSpans cut = first;  // text given by its ids has one row less
  cut_spans(cut, tokens->length(0) - 1);
  EXPECT_EQ(found->get(TokenRecord{tokens->record(0).ids, first.prompt_length}), cut);
  const Extractor extractor(kSpanModel);
  request.file = write_spans(*tokens, describe(extractor, {}), *found);
  for (const std::filesystem::path& model : {std::filesystem::path(), request.model}) {
    SpanSourceRequest with_file = request;
    with_file.model = model;
    const auto read = open_span_source(with_file, tokens);
    for (std::int64_t r = 0; r < 2; ++r) EXPECT_EQ(read->get(r, 1000), found->get(r, 1000));
  }
}

TEST_F(OpenSpanSource, OtherDefinitionsAndModelsAreRefused) {
  const auto tokens = write_text();
  SpanSourceRequest request{
      .file = {}, .model = kSpanModel, .tokenizer = kTokenizer, .options = {}};
  const auto found = open_span_source(request, tokens);
  SpanFileInfo about = describe(Extractor(kSpanModel), {});
  about.model_sha256 = "00ff";
  request.file = write_spans(*tokens, about, *found);
  expect_error(ErrorKind::data, {"spans.h5", "00ff", kSpanModel},
               [&] { open_span_source(request, tokens); });
  request.model.clear();
  EXPECT_EQ(open_span_source(request, tokens)->get(1, 1000), found->get(1, 1000));
  request.options.verb = VerbPhrases::group;
  expect_error(ErrorKind::data, {"spans.h5", "vp=group"},
               [&] { open_span_source(request, tokens); });
  request.file = folder_ / "none.h5";
  expect_error(ErrorKind::io, {"none.h5"}, [&] { open_span_source(request, tokens); });
}

}  // namespace
}  // namespace fathom::data::spans
