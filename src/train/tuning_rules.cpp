#include <algorithm>

#include "core/error.h"
#include "train/config_rules.h"

namespace fathom::train {
namespace {

using methods::adapters::AdapterSpec;
using methods::adapters::Kind;

void check_moc(const TrainConfig& config, Rules& rules) {
  using methods::moc::BalanceScope;
  using methods::moc::Scope;
  const methods::moc::Spec& moc = config.moc;
  if (!moc.enabled) {
    rules.must(moc == methods::moc::Spec(), {"moc.enabled"},
               "the whole model would be trained, and what else [moc] says be ignored: set "
               "moc.enabled = true, or leave its other keys out");
    return;
  }
  const bool one_each = config.batch.micro_batches == config.grid.dp && config.data.corpus.empty();
  rules.must(moc.scope != Scope::global || one_each,
             {"moc.scope", "batch.micro_batches", "grid.dp", "data.corpus"},
             "all tokens of a step can only decide together if they pass a layer at the same time: "
             "give each replica one micro-batch (batch.micro_batches = grid.dp) and no corpus");
  rules.must(moc.balance_scope != BalanceScope::global || one_each,
             {"moc.balance_scope", "batch.micro_batches", "grid.dp", "data.corpus"},
             "the balance over a step is known before its backward passes only if each replica has "
             "one micro-batch (batch.micro_batches = grid.dp), and there is no corpus");
  rules.must(moc.eval_scope != Scope::global, {"moc.eval_scope"},
             "an evaluation has no steps: sequence or microbatch");
  rules.must(!config.adapter.given(), {"moc.enabled", "adapter.kind", "adapter.path"},
             "mixture of control and an adapter cannot be stacked: leave one out");
}

// A key of [adapter] that differs from its default, and the kinds that read it.
struct ChangedKey {
  std::string name;
  std::vector<Kind> readers;

  bool read_by(Kind kind) const {
    return std::find(readers.begin(), readers.end(), kind) != readers.end();
  }
};

std::vector<ChangedKey> changed_keys(const AdapterSpec& spec) {
  const AdapterSpec defaults;
  const std::vector<Kind> products = {Kind::lora, Kind::dora, Kind::molex},
                          linear = {Kind::lora, Kind::dora, Kind::vera, Kind::molex},
                          chosen_layers = {Kind::lora, Kind::dora, Kind::vera, Kind::loreft,
                                           Kind::parallel_control},
                          all = {Kind::lora,   Kind::dora,  Kind::vera,
                                 Kind::loreft, Kind::molex, Kind::parallel_control};
  std::vector<ChangedKey> changed;
  const auto see = [&](const char* name, auto AdapterSpec::*key, const std::vector<Kind>& readers) {
    if (spec.*key != defaults.*key) changed.push_back({str("adapter.", name), readers});
  };
  see("rank", &AdapterSpec::rank, all);
  see("alpha", &AdapterSpec::alpha, products);
  see("rslora", &AdapterSpec::rslora, products);
  see("dropout", &AdapterSpec::dropout, linear);
  see("targets", &AdapterSpec::targets, linear);
  see("layers", &AdapterSpec::layers, chosen_layers);
  see("d_initial", &AdapterSpec::d_initial, {Kind::vera});
  see("sites", &AdapterSpec::sites, {Kind::parallel_control});
  see("control_scale", &AdapterSpec::control_scale, {Kind::parallel_control});
  see("prefix", &AdapterSpec::prefix, {Kind::loreft});
  see("suffix", &AdapterSpec::suffix, {Kind::loreft});
  see("tied", &AdapterSpec::tied, {Kind::loreft});
  see("own_share", &AdapterSpec::own_share, {Kind::molex});
  see("balance", &AdapterSpec::balance, {Kind::molex});
  return changed;
}

std::string list(const std::vector<Kind>& kinds) {
  std::string text;
  for (const Kind kind : kinds)
    text += str(text.empty() ? "" : ", ", methods::adapters::to_string(kind));
  return text;
}

// A key that nothing reads would leave the run another one than it says.
void check_unread_keys(const AdapterConfig& adapter, Rules& rules) {
  for (const ChangedKey& key : changed_keys(adapter.spec)) {
    if (!adapter.path.empty())
      rules.must(false, {key.name, "adapter.path"},
                 "the folder says what the adapter is: leave this key out");
    else
      rules.must(key.read_by(adapter.spec.kind), {key.name, "adapter.kind"},
                 str("read only with adapter.kind = ", list(key.readers), ": leave this key out"));
  }
}

void check_adapter(const AdapterConfig& adapter, bool adapted, Rules& rules) {
  const AdapterSpec& spec = adapter.spec;
  rules.must(spec.kind == Kind::none || adapter.path.empty(), {"adapter.kind", "adapter.path"},
             "the folder says what the adapter is: leave adapter.kind at none");
  rules.must(adapter.train.patterns.empty() || adapted, {"adapter.train", "adapter.kind"},
             "without an adapter the model is trained but for model.freeze");
  rules.must(spec.kind != Kind::loreft || spec.prefix + spec.suffix > 0,
             {"adapter.prefix", "adapter.suffix"}, "loreft needs positions to edit");
  check_unread_keys(adapter, rules);
}

}  // namespace

void check_tuning(const TrainConfig& config, Rules& rules) {
  check_adapter(config.adapter, config.adapter.given() || config.moc.enabled, rules);
  check_moc(config, rules);
}

}  // namespace fathom::train
