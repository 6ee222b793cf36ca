#include "train/tuning_warnings.h"

#include "core/log.h"

namespace fathom::train {
namespace {

using methods::adapters::Kind;

void warn_of_moc_gates(const methods::moc::Spec& spec) {
  if (!spec.enabled || spec.top_k > 1 || spec.softmax != methods::moc::SoftmaxOrder::topk_softmax)
    return;
  log_warn("moc.top_k = 1 with moc.softmax = topk_softmax: the only weight is 1, so that the ",
           spec.balance > 0 ? "gate learns from moc.balance alone"
                            : "gate, without moc.balance, never changes",
           "; softmax_topk gives it the task's gradient");
}

void warn_of_molex_gates(const methods::adapters::AdapterSpec& spec) {
  if (spec.kind != Kind::molex || spec.balance > 0) return;
  log_warn(
      "adapter.kind = molex with adapter.balance = 0: gates learn from the balance alone, and so "
      "keep the random weights that they start with");
}

// A prompt is edited at most half at each end.
void warn_of_missing_prompts(const methods::adapters::AdapterSpec& spec,
                             const data::Dataset& records) {
  if (spec.kind != Kind::loreft) return;
  std::int64_t without = 0;
  for (std::int64_t i = 0; i < records.records(); ++i) without += records.prompt_length(i) < 2;
  if (without == 0) return;
  log_warn("loreft edits prompts, and ",
           without == records.records() ? std::string("no record has")
                                        : str(without, " of ", records.records(), " records lack"),
           " one of two tokens or more: ",
           without == records.records() ? "nothing is learnt" : "these teach nothing");
}

}  // namespace

void warn_of_idle_parameters(const EnginePlan& plan, const data::Dataset& records) {
  warn_of_moc_gates(plan.moc);
  warn_of_molex_gates(plan.adapter);
  warn_of_missing_prompts(plan.adapter, records);
}

}  // namespace fathom::train
