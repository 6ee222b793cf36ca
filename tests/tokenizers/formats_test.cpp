// The same tokenizer in different files, and what stands beside it.
#include <gtest/gtest.h>

#include "fixtures.h"

namespace fathom::data::test {
namespace {

using nlohmann::json;

std::string fingerprint(const std::filesystem::path& path) {
  return Tokenizer::load(path)->fingerprint();
}

TEST(Formats, FingerprintDoesNotDependOnTheFileForm) {
  const ScratchFolder files, one;
  write_family(files, "gpt2");
  one.write("tokenizer.json", gpt2_as_tokenizer_json());
  EXPECT_EQ(fingerprint(files.path()), fingerprint(one.path()));
  EXPECT_EQ(fingerprint(files.path()), fingerprint(files.path() / "merges.txt"));

  const ScratchFolder model, tinyllama;
  model.copy("tinyllama/tokenizer.model", "tokenizer.model");
  write_family(tinyllama, "tinyllama");
  EXPECT_EQ(fingerprint(model.path()), fingerprint(tinyllama.path()));
}

TEST(Formats, FingerprintSeesWhatChangesIds) {
  const ScratchFolder folder;
  const json tiny = tiny_tokenizer_json();
  const std::string base = fingerprint(folder.write("tokenizer.json", tiny));
  EXPECT_EQ(base.size(), 16u);
  const auto changed = [&](const char* pointer, const json& value) {
    json other = tiny;
    other[json::json_pointer(pointer)] = value;
    return fingerprint(folder.write("other.json", other));
  };
  EXPECT_NE(base, changed("/normalizer", nullptr));
  EXPECT_NE(base, changed("/pre_tokenizer", {{"type", "Digits"}, {"individual_digits", true}}));
  EXPECT_NE(base, changed("/model/merges", json::array({"a b"})));
  EXPECT_NE(base, changed("/model/fuse_unk", true));
  EXPECT_NE(base, changed("/model/vocab/c", 6));
  EXPECT_NE(base, changed("/added_tokens/0/lstrip", true));
  // Not ids: the way back to text, and an option's default written out.
  EXPECT_EQ(base, changed("/decoder", {{"type", "Fuse"}}));
  EXPECT_EQ(base, changed("/model/byte_fallback", false));
}

TEST(Formats, SentencePieceModelGivesTheSameAsItsTokenizerJson) {
  const ScratchFolder model;
  model.copy("tinyllama/tokenizer.model", "tokenizer.model");
  const auto tokenizer = Tokenizer::load(model.path() / "tokenizer.model");
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  const json golden = read_json(data_file("golden/tinyllama.json"));
  const json strings = read_json(data_file("golden/strings.json"));
  for (std::size_t i = 0; i < strings.size(); ++i) {
    EXPECT_EQ(json(tokenizer->encode(strings[i].get<std::string>()).ids), golden["ids"][i]) << i;
  }
}

TEST(Formats, ConfigDecidesWhatIsPutAround) {
  const ScratchFolder folder;
  write_family(folder, "mistral");
  json config = read_json(folder.path() / "tokenizer_config.json");
  config["add_bos_token"] = false;
  config["add_eos_token"] = true;
  folder.write("tokenizer_config.json", config);
  const auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_TRUE(tokenizer->prefix_ids().empty());
  ASSERT_EQ(tokenizer->suffix_ids().size(), 1u);
  EXPECT_EQ(tokenizer->suffix_ids()[0], 2);
}

TEST(Formats, ConfigAddsTokens) {
  const ScratchFolder folder;
  folder.write("tokenizer.json", tiny_tokenizer_json());
  folder.write("tokenizer_config.json", json::parse(R"({
    "pad_token": "[PAD]", "eos_token": {"content": "[END]"},
    "added_tokens_decoder": {"9": {"content": "[TOOL]", "special": false}}})"));
  const auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer->token_id("[TOOL]"), 9);
  EXPECT_EQ(tokenizer->eos_id(), 10);
  EXPECT_EQ(tokenizer->token_id("[PAD]"), 11);
  EXPECT_EQ(tokenizer->vocab_size(), 12);
  EXPECT_FALSE(tokenizer->is_special(9));
  EXPECT_TRUE(tokenizer->is_special(10));
  EXPECT_EQ(tokenizer->encode("ab[END]").ids, (std::vector<std::int32_t>{4, 10}));
  // Ids 6 to 8 are a gap, which stands for no text.
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{4, 7, 4}, false), "abab");
}

TEST(Formats, ModelTypeStandsInForTheClass) {
  const ScratchFolder folder;
  folder.write("tokenizer.json", gpt2_as_tokenizer_json());
  EXPECT_EQ(Tokenizer::load(folder.path())->eos_id(), std::nullopt);
  folder.write("config.json", json{{"model_type", "gpt2"}});
  EXPECT_EQ(Tokenizer::load(folder.path())->eos_id(), 50256);
}

TEST(Formats, ChatTemplate) {
  const ScratchFolder folder;
  folder.write("tokenizer.json", tiny_tokenizer_json());
  EXPECT_EQ(Tokenizer::load(folder.path())->chat_template(), "");
  folder.write("tokenizer_config.json", json{{"chat_template", "{{ one }}"}});
  EXPECT_EQ(Tokenizer::load(folder.path())->chat_template(), "{{ one }}");
  folder.write("tokenizer_config.json", json::parse(R"({"chat_template": [
    {"name": "tools", "template": "no"}, {"name": "default", "template": "{{ two }}"}]})"));
  EXPECT_EQ(Tokenizer::load(folder.path() / "tokenizer.json")->chat_template(), "{{ two }}");
  folder.write("chat_template.jinja", std::string_view("{{ three }}"));
  EXPECT_EQ(Tokenizer::load(folder.path())->chat_template(), "{{ three }}");
}

}  // namespace
}  // namespace fathom::data::test
