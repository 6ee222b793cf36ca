#include "generate/exit_options.h"

#include "core/error.h"

namespace fathom::generate {

void check(const ExitOptions& options, const methods::mode::ModeSpec* vote) {
  if (!options.early()) return;
  const bool topk = options.policy == ExitPolicy::topk;
  const char* policy = topk ? "--exit=topk" : "--exit=threshold";
  require(vote != nullptr, ErrorKind::config, policy,
          ": the model has no router, for its last layer speaks alone; train one with "
          "mode.enabled=true, or leave --exit=dense");
  require(vote->routed(), ErrorKind::config, policy,
          ": the model has no router (mode.k = ", vote->k, ", ",
          vote->k == 1 ? "a single layer" : "mode.router = uniform",
          "), so that nothing decides where a token leaves; leave --exit=dense");
  if (topk)
    require(options.topk >= 1 && options.topk <= vote->kept(), ErrorKind::config,
            "--exit-topk=", options.topk, ": the model weighs ", vote->kept(), " of its ", vote->k,
            " late layers; give 1 to ", vote->kept());
  else
    require(options.threshold > 0 && options.threshold <= 1, ErrorKind::config,
            "--exit-threshold=", options.threshold,
            ": give a share of the router's weight, above "
            "0 and at most 1");
  require(options.flush >= 0, ErrorKind::config, "--exit-flush=", options.flush,
          ": give the tokens that wait at most, or 0 for as many as there are");
}

}  // namespace fathom::generate
