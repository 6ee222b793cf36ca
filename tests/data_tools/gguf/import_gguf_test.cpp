#include "data_tools/gguf/import_gguf.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "checkpoints/safetensors.h"
#include "core/files.h"
#include "data/tokenizers/tokenizer.h"
#include "data_tools/gguf/gguf_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace fathom::data_tools {
namespace {

using checkpoints::SafetensorsReader;
using testing::TemporaryDirectory;

/// Made, with the values expected, by the `gguf` package (make.py beside it).
const std::filesystem::path kData = std::filesystem::path(FATHOM_TEST_DATA) / "gguf";

nlohmann::json read_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(files::read_text(path));
}

TEST(ImportGguf, WeightsOfEveryStorageKindAreThoseOfThePackage) {
  const TemporaryDirectory folder;
  import_gguf(kData / "tiny.gguf", folder.path(), DType::f32);
  const SafetensorsReader found(folder.path()), expected(kData / "expected.safetensors");
  ASSERT_EQ(found.tensors().size(), expected.tensors().size());
  for (const auto& [name, entry] : expected.tensors()) {
    found.at(name, entry.shape);
    // Exact: a block's scale times a small integer has no rounding error.
    EXPECT_EQ(found.read_f32(name), expected.read_f32(name)) << name;
  }
}

TEST(ImportGguf, Bf16IsTheRoundedF32) {
  const TemporaryDirectory folder;
  import_gguf(kData / "tiny.gguf", folder / "f32", DType::f32);
  import_gguf(kData / "tiny.gguf", folder / "bf16", DType::bf16);
  const SafetensorsReader wide(folder / "f32"), narrow(folder / "bf16");
  for (const auto& [name, entry] : wide.tensors()) {
    EXPECT_EQ(narrow.at(name).element, checkpoints::Element::bf16);
    const auto a = wide.read_f32(name), b = narrow.read_f32(name);
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(to_float(to_bf16(a[i])), b[i]) << name;
  }
  EXPECT_EQ(read_json(folder / "bf16/config.json")["torch_dtype"], "bfloat16");
}

TEST(ImportGguf, ConfigHasTheModelsNumbers) {
  const TemporaryDirectory folder;
  import_gguf(kData / "tiny.gguf", folder.path(), DType::f32);
  const auto config = read_json(folder / "config.json");
  const nlohmann::json expected = {{"architectures", {"LlamaForCausalLM"}},
                                   {"model_type", "llama"},
                                   {"hidden_size", 64},
                                   {"intermediate_size", 96},
                                   {"num_hidden_layers", 2},
                                   {"num_attention_heads", 4},
                                   {"num_key_value_heads", 2},
                                   {"head_dim", 16},
                                   {"max_position_embeddings", 128},
                                   {"vocab_size", 11},
                                   {"rope_theta", 50000.0},
                                   {"rope_scaling", nullptr},
                                   {"rms_norm_eps", 1e-6},
                                   {"hidden_act", "silu"},
                                   {"tie_word_embeddings", false},
                                   {"torch_dtype", "float32"},
                                   {"bos_token_id", 1},
                                   {"eos_token_id", 0}};
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(config[key], value) << key;
  EXPECT_EQ(read_json(folder / "generation_config.json"),
            (nlohmann::json{{"bos_token_id", 1}, {"eos_token_id", 0}}));
}

TEST(ImportGguf, AModelThatIsThereStays) {
  const TemporaryDirectory folder;
  files::write_text_atomically(folder / "config.json", "{}");
  testing::expect_error(
      ErrorKind::config, [&] { import_gguf(kData / "tiny.gguf", folder.path(), DType::f32); },
      (folder / "config.json").string(), "name another folder");
  EXPECT_EQ(files::read_text(folder / "config.json"), "{}");
  EXPECT_FALSE(std::filesystem::exists(folder / "model.safetensors"));
}

TEST(ImportGguf, TokenizerLoadsAndEncodes) {
  const TemporaryDirectory folder;
  import_gguf(kData / "tiny.gguf", folder.path(), DType::f32);
  const auto tokenizer = data::Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer->vocab_size(), 11);
  EXPECT_EQ(tokenizer->encode("abc a<|user|>b<tool>").ids,
            (std::vector<std::int32_t>{10, 9, 1, 4, 2}));
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_FALSE(tokenizer->is_special(2)) << "user-defined, not control";
  EXPECT_EQ(tokenizer->eos_id(), 0);
  EXPECT_EQ(tokenizer->chat_template(), "{{ 'é' }}\n");
}

}  // namespace
}  // namespace fathom::data_tools
