#include "launch/options/exit.h"

namespace fathom::options {

using generate::ExitCache;
using generate::ExitOptions;
using generate::ExitPolicy;

void describe_exit(OptionTable& t, ExitOptions& e) {
  t.section("", "Early exits, of models whose late layers vote:");
  t.add("exit", e.policy,
        {.help = "Late layers that decide on a token: all of them, those of the largest router "
                 "weights, or the first ones up to a share of it. Layers above are left out."});
  t.add("exit-topk", e.topk,
        {.help = "With --exit=topk, the late layers that decide.",
         .unit = "layers",
         .range = at_least(0)});
  t.add("exit-threshold", e.threshold,
        {.help = "With --exit=threshold, the share of the router's weight; 1 keeps all.",
         .range = within(0, 1)});
  t.add("exit-cache", e.cache,
        {.help = "Keys and values of layers that were left out: made exactly when a later token "
                 "needs them, copied from the state at the exit, or no layer left out at all."});
  t.add("exit-flush", e.flush,
        {.help = "With --exit-cache=deferred, the tokens that make up for missed layers together, "
                 "at most; 0 sets no limit.",
         .unit = "tokens",
         .range = at_least(0)});
}

void check_exit(const ExitOptions& e) {
  const auto rule = [](bool holds, const char* text) { require(holds, ErrorKind::usage, text); };
  const ExitOptions defaults;
  const bool topk = e.policy == ExitPolicy::topk, threshold = e.policy == ExitPolicy::threshold;
  rule(!topk || e.topk > 0, "--exit=topk needs --exit-topk=<layers>");
  rule(topk || e.topk == defaults.topk, "--exit-topk needs --exit=topk");
  rule(!threshold || e.threshold > 0, "--exit=threshold needs --exit-threshold=<share>");
  rule(threshold || e.threshold == defaults.threshold, "--exit-threshold needs --exit=threshold");
  rule(e.early() || e.cache == defaults.cache,
       "--exit-cache needs --exit=topk or --exit=threshold");
  rule((e.early() && e.cache == ExitCache::deferred) || e.flush == defaults.flush,
       "--exit-flush needs --exit=topk or --exit=threshold, and --exit-cache=deferred");
}

}  // namespace fathom::options
