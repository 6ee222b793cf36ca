#include "train/moc_report.h"

#include "core/log.h"

namespace fathom::train {

using methods::moc::Spec;

void watch_tokens(Engine& engine) {
  const Spec& spec = engine.plan().moc;
  if (spec.enabled && spec.aggregate == methods::moc::Aggregate::mean)
    engine.moc()->largest_token_part = 0;
}

void warn_of_large_tokens(Engine& engine) {
  if (engine.moc() == nullptr || !engine.moc()->largest_token_part) return;
  constexpr double kMost = 0.5;
  double part = *engine.moc()->largest_token_part;
  engine.moc()->largest_token_part.reset();
  engine.grid().world().all_reduce(&part, 1, comm::ReduceOp::max);
  if (part > kMost && engine.grid().world().rank() == 0)
    log_warn("one token makes up ", static_cast<int>(100 * part),
             " % of the mean state that a gate scores, and decides nearly alone; "
             "moc.gate_input = rmsnorm or moc.aggregate = mode gives each token the same weight");
}

void add_routing(Engine& engine, std::int64_t bank_bytes, StepMetrics& metrics) {
  const auto usage = engine.expert_usage();
  if (!usage) return;
  metrics.more.push_back({"moc_entropy", usage->entropy});
  metrics.more.push_back({"moc_largest_share", usage->largest_share});
  metrics.more.push_back({"moc_unused", static_cast<double>(usage->unused)});
  metrics.more.push_back({"moc_flips", static_cast<double>(usage->flips)});
  metrics.more.push_back({"moc_bank_bytes", static_cast<double>(bank_bytes)});
}

}  // namespace fathom::train
