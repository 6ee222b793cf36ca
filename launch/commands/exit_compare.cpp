#include "launch/commands/exit_compare.h"

#include <algorithm>
#include <array>

#include "core/log.h"
#include "train/metrics/format.h"

namespace fathom::launch {
namespace {

constexpr std::size_t kPairs = 3;

// Tokens a second of one more pass over the prompts; 0 where each step took in a prompt.
double rate_of(generate::Generator& generator, const std::vector<generate::Prompt>& prompts) {
  const generate::DecodeTime before = generator.decode_time();
  generator.generate(prompts);
  const generate::DecodeTime after = generator.decode_time();
  return generate::DecodeTime{after.seconds - before.seconds, after.tokens - before.tokens}.rate();
}

}  // namespace

void compare_with_all_layers(train::Engine& engine, const generate::GeneratorOptions& options,
                             const std::vector<generate::Prompt>& prompts) {
  generate::GeneratorOptions through_all = options;
  through_all.exit = {};
  generate::Generator leaving(engine.student(), engine.grid(), options);
  generate::Generator staying(engine.student(), engine.grid(), through_all);
  rate_of(leaving, prompts);
  rate_of(staying, prompts);
  std::array<double, kPairs> ratios{};
  for (double& ratio : ratios) {
    const double leaves = rate_of(leaving, prompts), stays = rate_of(staying, prompts);
    if (leaves == 0 || stays == 0)
      return log_warn(
          "--exit-compare: each step took in a prompt, and nothing is left to time; "
          "give a larger --max-new, or a --batch that takes in all prompts at once");
    ratio = leaves / stays;
    log_info("exit-compare: ", train::format_fixed(leaves, 1), " tokens/s with exits, ",
             train::format_fixed(stays, 1), " through all layers: ", train::format_fixed(ratio, 3),
             " times as fast");
  }
  std::nth_element(ratios.begin(), ratios.begin() + kPairs / 2, ratios.end());
  log_info("exit-compare: in the median ", train::format_fixed(ratios[kPairs / 2], 3),
           " times as fast, prompts left out; by the weights read at most ",
           train::format_fixed(leaving.exit_counts().bound(engine.student().spec()), 3));
}

}  // namespace fathom::launch
