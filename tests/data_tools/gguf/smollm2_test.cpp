#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "checkpoints/safetensors.h"
#include "core/files.h"
#include "data/tokenizers/tokenizer.h"
#include "data_tools/gguf/import_gguf.h"
#include "tests/support/temporary_directory.h"

namespace fathom::data_tools {
namespace {

using nlohmann::json;
using testing::TemporaryDirectory;

json read_json(const std::filesystem::path& path) {
  return json::parse(files::read_text(path));
}

/// The packaged model against sums, norms and first values of every tensor, and token ids, that
/// Python made from the same file.
TEST(SmolLm2, ImportMatchesTheGoldenValues) {
  const char* gguf = std::getenv("FATHOM_SMOLLM2_GGUF");
  if (gguf == nullptr)
    GTEST_SKIP() << "FATHOM_SMOLLM2_GGUF is not set: data_tools/fetch_smollm2.sh fetches the file";
  const std::filesystem::path data = FATHOM_TEST_DATA;
  const TemporaryDirectory folder;
  import_gguf(gguf, folder.path(), DType::f32);

  const json golden = read_json(data / "golden/smollm2/expected.json").at("tensors");
  const checkpoints::SafetensorsReader weights(folder.path());
  ASSERT_EQ(weights.tensors().size(), golden.size());
  for (const auto& [name, expected] : golden.items()) {
    weights.at(name, expected.at("shape").get<checkpoints::Shape>());
    const auto values = weights.read_f32(name);
    double sum = 0, squares = 0;
    for (const float x : values) {
      sum += x;
      squares += static_cast<double>(x) * x;
    }
    const double l2 = expected.at("l2").get<double>();
    EXPECT_NEAR(std::sqrt(squares), l2, 1e-6 * l2) << name;
    EXPECT_NEAR(sum, expected.at("sum").get<double>(), 1e-6 * l2 * std::sqrt(values.size()))
        << name;
    const auto check_start = [&](const char* key, std::size_t at) {
      if (!expected.contains(key)) return;
      const auto first = expected[key].get<std::vector<float>>();
      for (std::size_t i = 0; i < first.size(); ++i)
        EXPECT_EQ(values.at(at + i), first[i]) << name << " " << key << " " << i;
    };
    check_start("first4", 0);
    const auto& shape = weights.at(name).shape;
    if (shape.size() == 2) check_start("row1_first4", static_cast<std::size_t>(shape[1]));
  }

  const auto tokenizer = data::Tokenizer::load(folder.path());
  const json strings = read_json(data / "tokenizers/golden/strings.json");
  const json ids = read_json(data / "tokenizers/golden/smollm2.json").at("ids");
  ASSERT_EQ(strings.size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(tokenizer->encode(strings[i].get<std::string>()).ids,
              ids[i].get<std::vector<std::int32_t>>())
        << strings[i];
}

}  // namespace
}  // namespace fathom::data_tools
