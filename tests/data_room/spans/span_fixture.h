#pragma once

#include <random>

#include "data/spans/span_file.h"
#include "tests/data_room/spans/piece_tokenizer.h"
#include "tests/data_room/token_fixture.h"

namespace fathom::data::spans::test {

/// Records of the pieces below, their token file and, on demand, their span file.
class SpanFixture : public TokenFixture {
 protected:
  SpanFixture()
      : tokenizer(std::make_shared<const PieceTokenizer>(
            std::vector<std::string>{"the", " dog", " sat", ".", "\n", " on", " a", " mat"})) {}

  std::vector<PlainRecord> random_records(int count) const {
    std::mt19937 random(3);
    std::vector<PlainRecord> records(static_cast<std::size_t>(count));
    for (PlainRecord& record : records) {
      record.ids.resize(2 + random() % 30);
      for (auto& id : record.ids)
        id = static_cast<std::int32_t>(random() % static_cast<unsigned>(tokenizer->vocab_size()));
      record.prompt_length = static_cast<std::int32_t>(random() % record.ids.size());
    }
    return records;
  }

  TokenSpans expected(const TokenRecord& record) const {
    return find_token_spans(*tokenizer, find_each_plain, std::span(&record, 1)).front();
  }

  static SpanFileInfo describe(const TokenFile& tokens) {
    return {.definition = definition_of({}),
            .extractor = "plain",
            .model = "none 1.0",
            .model_sha256 = "00",
            .tokenizer = tokens.info().tokenizer,
            .tokens = tokens.info().content};
  }

  std::filesystem::path write_spans(const TokenFile& tokens,
                                    const std::string& name = "spans.h5") const {
    SpanFileWriter writer(folder_ / name, describe(tokens));
    for (std::int64_t r = 0; r < tokens.records(); ++r)
      writer.append(tokens.record(r).ids, expected(tokens.record(r)));
    writer.finish();
    return folder_ / name;
  }

  std::shared_ptr<const PieceTokenizer> tokenizer;
};

}  // namespace fathom::data::spans::test
