// SmolLM2-135M-Instruct against the greedy continuations that transformers computed in f32. The
// weights are not part of the sources: FATHOM_SMOLLM2_DIR names the folder that the import wrote.

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kernels/backend.h"
#include "loaded_model.h"

namespace fathom::generate {
namespace {

TEST(SmolLM2, GreedyContinuations) {
  const char* folder = std::getenv("FATHOM_SMOLLM2_DIR");
  if (folder == nullptr)
    GTEST_SKIP() << "needs the weights: set FATHOM_SMOLLM2_DIR to the imported folder";
  const auto device = kernels::make_device();
  const auto world = comm::self_communicator();
  test::LoadedModel model(folder, *device, *world, {});
  std::ifstream file(std::string(FATHOM_TEST_DATA) + "/golden/smollm2/expected.json");
  const auto runs = nlohmann::json::parse(file).at("greedy");
  for (const std::int64_t batch : {std::int64_t{1}, static_cast<std::int64_t>(runs.size())}) {
    GeneratorOptions options{
        .max_new = 40, .stop_ids = model.stage->spec().eos_ids, .batch = batch};
    std::vector<Prompt> prompts;
    for (const auto& run : runs)
      prompts.push_back({run.at("prompt_ids").get<std::vector<std::int32_t>>(), prompts.size()});
    const auto results = Generator(*model.stage, model.grid, options).generate(prompts);
    for (std::size_t i = 0; i < results.size(); ++i)
      EXPECT_EQ(results[i].ids, runs[i].at("new_ids").get<std::vector<std::int32_t>>())
          << "run " << i << ", batch " << batch;
  }
}

}  // namespace
}  // namespace fathom::generate
