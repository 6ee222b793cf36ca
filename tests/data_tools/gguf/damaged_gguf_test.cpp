#include <gtest/gtest.h>

#include "data_tools/gguf/gguf_file.h"
#include "data_tools/gguf/import_gguf.h"
#include "tests/data_tools/gguf/gguf_builder.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace fathom::data_tools {
namespace {

using fathom::testing::expect_error;
using fathom::testing::TemporaryDirectory;
using testing::GgufBuilder;

const std::filesystem::path kTiny = std::filesystem::path(FATHOM_TEST_DATA) / "gguf/tiny.gguf";

class DamagedGguf : public ::testing::Test {
 protected:
  void refuse(const GgufBuilder& builder, std::size_t data_bytes, const std::string& reason) {
    builder.write(path_, data_bytes);
    expect_error(
        ErrorKind::data, [&] { GgufFile file(path_); }, "bad.gguf", reason);
  }
  void refuse_import(const GgufBuilder& builder, const std::string& reason) {
    builder.write(path_, 1 << 16);
    expect_error(
        ErrorKind::data, [&] { import_gguf(path_, folder_ / "out", DType::f32); }, "bad.gguf",
        reason);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  }

  TemporaryDirectory folder_;
  std::filesystem::path path_ = folder_ / "bad.gguf";
};

TEST_F(DamagedGguf, BuilderMakesWhatTheReaderReads) {
  GgufBuilder()
      .u32("n", 7)
      .f32("x", 0.5f)
      .texts("t", {"a", ""})
      .integers("i", {-1})
      .tensor("w", {3, 2}, 0, 32)
      .write(path_, 56);
  const GgufFile file(path_);
  EXPECT_EQ(file.get<std::int64_t>("n"), 7);
  EXPECT_EQ(file.get<double>("n"), 7.0);
  EXPECT_EQ(file.get<double>("x"), 0.5);
  EXPECT_EQ(file.get<std::vector<std::string>>("t"), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(file.get<std::vector<std::int64_t>>("i"), (std::vector<std::int64_t>{-1}));
  EXPECT_EQ(file.tensors().at("w").shape, (checkpoints::Shape{2, 3}));
  expect_error(
      ErrorKind::data, [&] { file.get<bool>("n"); }, "'n'", "kind");
  expect_error(
      ErrorKind::data, [&] { file.get<bool>("m"); }, "no metadata 'm'");
}

TEST_F(DamagedGguf, EveryLengthAndOffsetIsChecked) {
  GgufBuilder wrong;
  wrong.magic = 1;
  refuse(wrong, 0, "no GGUF file");
  wrong = {};
  wrong.version = 0x03000000;
  refuse(wrong, 0, "version 50331648");
  wrong = {};
  wrong.extra_tensors = ~0ull >> 1;
  refuse(wrong, 64, "tensor count");
  wrong = {};
  wrong.extra_values = 1;
  refuse(wrong, 0, "metadata");
  refuse(GgufBuilder().value("k", 8, GgufBuilder::number(~0ull)), 0, "'k'");
  refuse(GgufBuilder().value("k", 9, GgufBuilder::number(8u) + GgufBuilder::number(1ull << 60)), 0,
         "do not fit");
  refuse(GgufBuilder().value("k", 77, ""), 0, "unknown kind 77");
  refuse(GgufBuilder().value("k", 7, "\2"), 0, "no boolean");
  refuse(GgufBuilder().value("k", 10, GgufBuilder::number(~0ull)), 0, "too large");
  refuse(GgufBuilder().u32("k", 1).u32("k", 2), 0, "'k' occurs twice");
  refuse(GgufBuilder().u32("general.alignment", 24), 0, "power of two");
  refuse(GgufBuilder().tensor("w", {}, 0, 0), 64, "0 dims");
  refuse(GgufBuilder().tensor("w", {0}, 0, 0), 64, "extent 0");
  refuse(GgufBuilder().tensor("w", {1ull << 40, 1ull << 40}, 0, 0), 64, "impossible extent");
  refuse(GgufBuilder().tensor("w", {4}, 12, 0), 64, "storage kind 12");
  refuse(GgufBuilder().tensor("w", {48}, 8, 0), 640, "no whole blocks");
  refuse(GgufBuilder().tensor("w", {4}, 0, 8), 64, "no multiple of 32");
  refuse(GgufBuilder().tensor("w", {8}, 0, 0), 31, "truncated");
  refuse(GgufBuilder().tensor("w", {8}, 0, ~0ull - 31), 64, "truncated");
  refuse(GgufBuilder().tensor("a", {16}, 0, 0).tensor("b", {8}, 0, 32), 128, "overlaps");
  refuse(GgufBuilder().tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32), 128, "occurs twice");
}

TEST_F(DamagedGguf, EveryTruncationIsRefused) {
  std::filesystem::copy(kTiny, path_);
  for (std::size_t n = std::filesystem::file_size(path_) - 1; n > 0; n -= n > 4000 ? 997 : 1) {
    std::filesystem::resize_file(path_, n);
    EXPECT_THROW(GgufFile file(path_), Error) << n;
  }
}

/// The metadata of a model of one layer, or as much of it as the importer reads before it refuses.
GgufBuilder model(const std::string& architecture = "llama", std::uint32_t kv_heads = 1,
                  std::uint32_t layers = 1) {
  GgufBuilder builder;
  builder.tensor("token_embd.weight", {32, 2}, 0, 0)
      .text("general.architecture", architecture)
      .u32("llama.block_count", layers)
      .u32("llama.embedding_length", 32)
      .u32("llama.feed_forward_length", 32)
      .u32("llama.attention.head_count", 2)
      .u32("llama.attention.head_count_kv", kv_heads)
      .u32("llama.context_length", 16)
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", "gpt-2")
      .texts("tokenizer.ggml.tokens", {"a", "b"})
      .integers("tokenizer.ggml.token_type", {1, 1})
      .texts("tokenizer.ggml.merges", {});
  return builder;
}

TEST_F(DamagedGguf, UnsupportedModelsAreNamed) {
  refuse_import(model(), "has no tensor 'output_norm.weight'");
  refuse_import(GgufBuilder(), "general.architecture");
  refuse_import(model("mamba"), "'mamba'");
  refuse_import(model("llama", 3), "cannot share 3");
  refuse_import(model("llama", 1, 0x7fffffff), "2147483647 layers");
  refuse_import(model().u32("llama.expert_count", 8), "8 experts");
  refuse_import(model().text("llama.rope.scaling.type", "yarn"), "yarn");
  refuse_import(model().u32("llama.rope.dimension_count", 4), "rotates 4 of 16");
}

}  // namespace
}  // namespace fathom::data_tools
