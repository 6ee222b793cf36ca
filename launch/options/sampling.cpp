#include "launch/options/sampling.h"

namespace fathom::options {

generate::Sampling SamplingOptions::with_seed(std::int64_t seed) const {
  return {.temperature = temperature,
          .top_k = top_k,
          .top_p = top_p,
          .no_repeat_ngram = no_repeat_ngram,
          .seed = static_cast<std::uint64_t>(seed)};
}

void describe_sampling(OptionTable& t, SamplingOptions& s) {
  t.add("max-new", s.max_new,
        {.help = "Most tokens to add to each prompt.", .unit = "tokens", .range = at_least(1)});
  t.add("temperature", s.temperature,
        {.help = "Divides the logits before sampling; 0 takes the most likely token.",
         .range = at_least(0)});
  t.add("top-k", s.top_k,
        {.help = "Sample among the k most likely tokens; 0 keeps all.",
         .unit = "tokens",
         .range = at_least(0)});
  t.add("top-p", s.top_p,
        {.help = "Sample among the fewest tokens with this much probability; 1 keeps all.",
         .range = {.lowest = 0, .highest = 1, .open_below = true}});
  t.add("no-repeat-ngram", s.no_repeat_ngram,
        {.help = "Never repeat a run of this many tokens; 0 allows it.",
         .unit = "tokens",
         .range = at_least(0)});
}

void check_sampling(const SamplingOptions& s) {
  require(s.temperature > 0 || (s.top_k == 0 && s.top_p == 1.0), ErrorKind::usage,
          "--top-k and --top-p choose among samples: give --temperature greater than 0");
}

}  // namespace fathom::options
