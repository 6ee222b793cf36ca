#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace fathom::testing {

/// A LLaMA small enough to train in milliseconds, as the few numbers that tests vary.
struct SmallModel {
  int layers = 4;
  int hidden = 64;
  int heads = 4;
  int kv_heads = 2;
  int ffn = 112;
  int vocab = 503;
  int positions = 64;
  bool tied = true;
};

/// Its config.json. Weights are drawn wider than usual, so that an untrained teacher has opinions.
std::string config_json(const SmallModel& model);

/// Writes a Hugging Face folder with random weights, a function of the seed.
void write_model(const std::filesystem::path& folder, const SmallModel& model, std::uint64_t seed);

/// Writes `records` records of random ids, with prompts, whose lengths run through
/// [shortest, longest] one after the other: no two are alike while records <= longest - shortest
/// + 1. The file says that the tokenizer in a folder made it, or none that there is.
void write_tokens(const std::filesystem::path& file, int records, int shortest, int longest,
                  std::int32_t vocab, std::uint32_t seed,
                  const std::filesystem::path& tokenizer = {});

/// The folder of a real tokenizer, of 1024 ids.
std::filesystem::path shakespeare();

/// Copies it into a model's folder.
void copy_shakespeare(const std::filesystem::path& folder);

}  // namespace fathom::testing
