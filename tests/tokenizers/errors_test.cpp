// Files and texts that are refused, and what is said of them.
#include <gtest/gtest.h>

#include "fixtures.h"

namespace fathom::data::test {
namespace {

using nlohmann::json;

/// The error of the tiny tokenizer with one value changed; it must be a data error that names the
/// file.
std::string refusal(const char* pointer, const json& value) {
  const ScratchFolder folder;
  json broken = tiny_tokenizer_json();
  broken[json::json_pointer(pointer)] = value;
  const Error error = load_error(folder.write("tokenizer.json", broken));
  EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
  EXPECT_NE(std::string(error.what()).find("tokenizer.json"), std::string::npos) << error.what();
  return error.what();
}

#define EXPECT_SAYS(message, part) \
  EXPECT_NE(std::string(message).find(part), std::string::npos) << message

TEST(Errors, MissingFiles) {
  const ScratchFolder folder;
  EXPECT_EQ(load_error(folder.path() / "absent").kind(), ErrorKind::io);
  const Error empty = load_error(folder.path());
  EXPECT_EQ(empty.kind(), ErrorKind::io);
  EXPECT_SAYS(empty.what(), "tokenizer.model");
  folder.write("vocab.json", json::object());
  EXPECT_EQ(load_error(folder.path() / "vocab.json").kind(), ErrorKind::data);
  folder.write("vocab.json", json{{"a", 0}});
  EXPECT_EQ(load_error(folder.path() / "vocab.json").kind(), ErrorKind::io);
  EXPECT_EQ(load_error(folder.write("notes.txt", std::string_view("x"))).kind(), ErrorKind::data);
}

TEST(Errors, UnknownComponentsAreNamed) {
  EXPECT_SAYS(refusal("/normalizer", {{"type", "Lowercase"}}), "normalizer.type");
  EXPECT_SAYS(refusal("/normalizer", {{"type", "Lowercase"}}), "\"Lowercase\"");
  const json nested = {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Whitespace"}}}}};
  EXPECT_SAYS(refusal("/pre_tokenizer", nested), "pre_tokenizer.pretokenizers[0].type");
  EXPECT_SAYS(refusal("/decoder", {{"type", "WordPiece"}}), "\"WordPiece\"");
  EXPECT_SAYS(refusal("/post_processor", {{"type", "BertProcessing"}}), "\"BertProcessing\"");
  EXPECT_SAYS(refusal("/model/type", "Unigram"), "\"Unigram\"");
  const json roberta = {{"type", "RobertaProcessing"}, {"cls", {"<s>", 77}}, {"sep", {"</s>", 1}}};
  EXPECT_SAYS(refusal("/post_processor", roberta), "77");
}

TEST(Errors, OptionsThatWouldChangeIds) {
  EXPECT_SAYS(refusal("/model/dropout", 0.1), "dropout");
  EXPECT_SAYS(refusal("/model/end_of_word_suffix", "</w>"), "end_of_word_suffix");
  EXPECT_SAYS(refusal("/model/byte_fallback", true), "<0x00>");
  const json split = {
      {"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Removed"}, {"invert", false}};
  EXPECT_SAYS(refusal("/pre_tokenizer", split), "behavior");
  const json regex = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}};
  EXPECT_SAYS(refusal("/pre_tokenizer", regex), "(a");
  const json order = {{"type", "Sequence"},
                      {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "Digits"}}}}};
  EXPECT_SAYS(refusal("/pre_tokenizer", order), "ByteLevel");
}

TEST(Errors, VocabularyAndMerges) {
  EXPECT_SAYS(refusal("/model/vocab/a", -1), "'a'");
  EXPECT_SAYS(refusal("/model/vocab/a", 2), "both");
  EXPECT_SAYS(refusal("/model/vocab/a", "x"), "no integer");
  EXPECT_SAYS(refusal("/model/vocab/a", std::int64_t{1} << 40), "ids are");
  EXPECT_SAYS(refusal("/model/vocab", json::array()), "model.vocab");
  EXPECT_SAYS(refusal("/model/merges", json::array({"a b c"})), "merge 0");
  EXPECT_SAYS(refusal("/model/merges", json::array({"a z"})), "'z'");
  EXPECT_SAYS(refusal("/model/merges", json::array({"b a"})), "'ba'");
  EXPECT_SAYS(refusal("/model/merges", json::array({json::array({1, 2})})), "merge 0");
  EXPECT_SAYS(refusal("/model/unk_token", "<none>"), "<none>");
  EXPECT_SAYS(refusal("/added_tokens/0/id", 3), "'<unk>'");
  EXPECT_SAYS(refusal("/added_tokens/0/content", 5), "added_tokens[0].content");
  EXPECT_SAYS(refusal("/model", nullptr), "model");
  EXPECT_SAYS(refusal("/decoder", nullptr), "decoder");
}

TEST(Errors, DamagedFiles) {
  const ScratchFolder folder;
  const std::string whole = tiny_tokenizer_json().dump();
  const Error cut = load_error(
      folder.write("tokenizer.json", std::string_view(whole).substr(0, whole.size() / 2)));
  EXPECT_EQ(cut.kind(), ErrorKind::data);
  EXPECT_SAYS(cut.what(), "not valid JSON");
  EXPECT_EQ(load_error(folder.write("tokenizer.json", std::string_view("[1]"))).kind(),
            ErrorKind::data);

  const std::string model = read_bytes(data_file("mistral/tokenizer.model"));
  for (const std::size_t size : {std::size_t{0}, model.size() / 2, model.size() - 1}) {
    const auto path = folder.write("tokenizer.model", std::string_view(model).substr(0, size));
    EXPECT_EQ(load_error(path).kind(), ErrorKind::data) << size;
  }
  const std::string ranks = "IQ== 0\nIg== 1\n";
  EXPECT_EQ(load_error(folder.write("tokenizer.model", std::string_view(ranks))).kind(),
            ErrorKind::data);
}

TEST(Errors, MergesFileNamesTheLine) {
  const ScratchFolder folder;
  write_family(folder, "gpt2");
  folder.write("merges.txt", std::string_view("#version: 0.2\nĠ t\nbroken\n"));
  EXPECT_SAYS(load_error(folder.path()).what(), "merges.txt: line 3");
}

TEST(Errors, ClassWithoutAPipeline) {
  const ScratchFolder folder;
  write_family(folder, "gpt2");
  folder.write("tokenizer_config.json", json{{"tokenizer_class", "CLIPTokenizer"}});
  EXPECT_SAYS(load_error(folder.path()).what(), "CLIPTokenizer");
  folder.write("tokenizer_config.json", json{{"add_bos_token", "yes"}});
  EXPECT_SAYS(load_error(folder.path()).what(), "tokenizer_config.json: add_bos_token");
}

TEST(Errors, TextThatIsNotUtf8) {
  const ScratchFolder folder;
  const auto tokenizer = Tokenizer::load(folder.write("tokenizer.json", tiny_tokenizer_json()));
  const auto message = [&](std::string_view text) -> std::string {
    try {
      tokenizer->encode(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_SAYS(message("ab\xFF"), "byte 2");
  EXPECT_SAYS(message("é\xC3"), "byte 2");
  EXPECT_SAYS(message("\xED\xA0\x80"), "byte 0");
  EXPECT_SAYS(message("a\xC0\x80"), "byte 1");
  EXPECT_EQ(message(std::string_view("a\0b", 3)), "accepted");
}

TEST(Errors, IdsOutsideTheVocabulary) {
  const ScratchFolder folder;
  const auto tokenizer = Tokenizer::load(folder.write("tokenizer.json", tiny_tokenizer_json()));
  for (const std::int32_t id : {-1, 6}) {
    EXPECT_THROW(tokenizer->decode(std::vector{id}, false), Error);
    EXPECT_THROW(tokenizer->token_bytes(id), Error);
    EXPECT_THROW(tokenizer->is_special(id), Error);
  }
}

}  // namespace
}  // namespace fathom::data::test
