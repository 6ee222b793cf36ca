#pragma once

#include <gtest/gtest.h>

#include "generate/generator.h"
#include "tests/train/small_distillation.h"
#include "train/engine.h"

namespace fathom::train::teacher_forcing {

/// Five prompts of at least so many tokens.
inline std::vector<generate::Prompt> prompts(std::size_t shortest) {
  std::vector<generate::Prompt> all;
  std::int32_t next = 7;
  for (std::size_t p = 0; p < 5; ++p) {
    std::vector<std::int32_t> ids(shortest + p);
    for (std::int32_t& id : ids) id = next = (next * 37 + 11) % small::kVocab;
    all.push_back({ids, p});
  }
  return all;
}

/// Continues the prompts by the likeliest tokens, and expects the same tokens and probabilities of
/// one pass over prompts and answers together. Collective over the grid.
inline void expect_same_as_decoding(Engine& engine, const std::vector<generate::Prompt>& prompts) {
  generate::GeneratorOptions options;
  options.max_new = 3;
  const auto results =
      generate::Generator(engine.student(), engine.grid(), options).generate(prompts);
  data::MicroBatch batch;
  double logprobs = 0;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    std::vector<std::int32_t> ids = prompts[p].ids;
    ids.insert(ids.end(), results[p].ids.begin(), results[p].ids.end());
    data::append(batch, {ids, static_cast<std::int32_t>(prompts[p].ids.size())}, 0, 0);
    for (const float logprob : results[p].logprobs) logprobs += logprob;
  }
  const model::LossSums sums = engine.evaluate({batch});
  EXPECT_EQ(sums.correct, sums.tokens);
  const auto tokens = static_cast<double>(options.max_new) * static_cast<double>(prompts.size());
  EXPECT_NEAR(-sums.cross_entropy / engine.grid().shape().dp, logprobs, 5e-5 * tokens);
}

}  // namespace fathom::train::teacher_forcing
