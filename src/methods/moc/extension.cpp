#include "methods/moc/extension.h"

#include <cmath>
#include <numeric>

#include "autograd/operations.h"
#include "core/parameter_names.h"
#include "methods/moc/dominance.h"

namespace fathom::methods::moc {

using autograd::GradSlot;
using autograd::Tape;
using autograd::Var;
using model::BlockSite;
using routing::make_groups;
using routing::route;

namespace {

constexpr double kGateStd = 0.02;

std::size_t index(BlockSite site) {
  return site == BlockSite::attention ? 0 : 1;
}

const char* name_of(BlockSite site) {
  return site == BlockSite::attention ? "attention" : "mlp";
}

std::vector<float> narrow(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

std::string gate_name(const BlockSite* site) {
  const std::string name = std::string(kMethodPrefix) + "moc.gate";
  return (site == nullptr ? name : name + "." + name_of(*site)) + ".weight";
}

std::string control_name(std::int64_t layer, BlockSite site, char matrix) {
  return std::string(kMethodPrefix) + "moc.layers." + std::to_string(layer) + "." + name_of(site) +
         "." + matrix;
}

/// One site of one block; the extension does the work.
class MixtureOfControl::Control : public model::ResidualControl {
 public:
  Control(MixtureOfControl& parent, std::int64_t layer, BlockSite site)
      : parent_(parent), layer_(layer), site_(site) {}
  Var apply(const model::Pass& pass, Tape* tape, const Var& state, const Var& sum) const override {
    return parent_.apply(layer_, site_, pass, tape, state, sum);
  }

 private:
  MixtureOfControl& parent_;
  std::int64_t layer_;
  BlockSite site_;
};

/// A micro-batch on its way through the stage.
struct MixtureOfControl::Routing : model::PassState {
  Groups groups;
  bool training = false;
  /// Decisions by layer and site: a block that is recomputed takes the same experts again.
  std::map<std::pair<std::int64_t, std::size_t>, std::shared_ptr<const Decision>> decisions;
  std::vector<double> picks, probs;  ///< [gates * L] up to here, from the first stage on
  std::shared_ptr<GradSlot>
      probs_gradient;  ///< of probs: the same for every site that adds to them
};

/// Each running sequence keeps the experts that its prompt chose.
struct MixtureOfControl::Decoding : model::PassState {
  std::map<std::pair<std::int64_t, std::size_t>, std::map<std::int32_t, Choice>>
      choices;  // by slot
};

MixtureOfControl::MixtureOfControl(const Spec& spec, const model::ModelSpec& model,
                                   const std::vector<std::int64_t>& layer_counts,
                                   comm::Communicator* pp, comm::Communicator* dp)
    : spec_(spec),
      model_(model),
      layer_counts_(layer_counts),
      pp_(pp),
      dp_(dp),
      usage_(spec.site_count(), model.layers) {
  require(spec.top_k <= model.layers, ErrorKind::config, "moc.top_k = ", spec.top_k,
          ": the model has ", model.layers, " layers, which are the experts");
}

std::size_t MixtureOfControl::gate_of(BlockSite site) const {
  return gates_.size() == 2 ? index(site) : 0;
}

// In a bucket of their own, which is final when the stages have exchanged gradients.
void MixtureOfControl::begin(Device& device, const model::StagePlan& plan, comm::Communicator* tp,
                             model::ParameterSet& parameters) {
  device_ = &device;
  tp_ = tp;
  last_stage_ = plan.has_head;
  const bool first_rank = plan.shard.rank == 0;
  const std::int64_t hidden = model_.hidden, rank = spec_.rank;
  gates_.resize(static_cast<std::size_t>(spec_.gate_count()));
  const auto declare_gate = [&](Var& var, const BlockSite* site) {
    const Shape shape{hidden, model_.layers};
    auto part = model::whole_part(gate_name(site), shape, plan.has_embedding && first_rank);
    part.sharing = model::Sharing::stages;
    part.init_std = kGateStd;
    part.decay = spec_.gate_decay;
    parameters.declare(&var, shape, {std::move(part)});
  };
  if (spec_.gate == Gate::shared) declare_gate(gates_[0], nullptr);
  for (const BlockSite site : kSites) {
    if (!has(site)) continue;
    if (spec_.gate == Gate::separate) declare_gate(gates_[gate_of(site)], &site);
    Bank& bank = banks_[index(site)].emplace(pp_, layer_counts_, rank, hidden);
    std::vector<model::PartDeclaration> a, b;
    for (std::int64_t layer = plan.first_layer; layer < plan.end_layer; ++layer) {
      a.push_back(model::whole_part(control_name(layer, site, 'A'), {rank, hidden}, first_rank));
      a.back().init_bound = 1 / std::sqrt(static_cast<double>(hidden));
      b.push_back(model::whole_part(control_name(layer, site, 'B'), {hidden, rank}, first_rank));
    }
    const auto layers = static_cast<std::int64_t>(a.size());
    parameters.declare(&bank.a, {layers * rank, hidden}, std::move(a));
    parameters.declare(&bank.b, {layers * hidden, rank}, std::move(b));
  }
  parameters.mark_bucket();
  if (spec_.gate_input == GateInput::rmsnorm)
    unit_ = Var(Tensor::from_host(device, {hidden},
                                  std::vector<float>(static_cast<std::size_t>(hidden), 1.0f)));
}

std::unique_ptr<model::ResidualControl> MixtureOfControl::control(std::int64_t layer,
                                                                  BlockSite site,
                                                                  model::ParameterSet&) {
  if (!has(site)) return nullptr;
  return std::make_unique<Control>(*this, layer, site);
}

const Experts& MixtureOfControl::experts(BlockSite site) const {
  FATHOM_CHECK(has(site), "a mixture of control without controls at ", name_of(site), " sites");
  return banks_[index(site)]->experts();
}

void MixtureOfControl::weights_changed() {
  for (auto& bank : banks_)
    if (bank) bank->gather();
}

void MixtureOfControl::finish_gradients() {
  for (auto& bank : banks_)
    if (bank) bank->return_gradients();
}

std::int64_t MixtureOfControl::bytes_received() const {
  std::int64_t bytes = 0;
  for (const auto& bank : banks_)
    if (bank) bytes += bank->bytes_received();
  return bytes;
}

std::vector<model::LossTerm> MixtureOfControl::terms() const {
  if (spec_.balance == 0) return {};
  return {{"moc_balance", spec_.balance, balance_sum_, static_cast<double>(balanced_)}};
}

void MixtureOfControl::begin_step(std::int64_t micro_batches) {
  balanced_ = spec_.balance_scope == BalanceScope::global ? 1 : micro_batches;
  balance_sum_ = 0;
  usage_.clear();
}

std::vector<model::CarriedRow> MixtureOfControl::carried() const {
  if (spec_.balance == 0) return {};
  const std::int64_t width = spec_.gate_count() * model_.layers;
  return {{width, false}, {width, true}};
}

std::shared_ptr<model::PassState> MixtureOfControl::begin_pass(const model::Pass& pass,
                                                               const std::vector<Var>& received) {
  auto routing = std::make_shared<Routing>();
  routing->training = pass.tape != nullptr;
  routing->groups = make_groups(*device_, *pass.rows,
                                routing->training ? spec_.scope : spec_.eval_scope, spec_.tokens);
  const auto width = static_cast<std::size_t>(spec_.gate_count() * model_.layers);
  routing->picks.assign(width, 0.0);
  routing->probs.assign(width, 0.0);
  if (!routing->training || spec_.balance == 0) return routing;
  if (received.empty()) {
    routing->probs_gradient = std::make_shared<GradSlot>();
    return routing;
  }
  const std::vector<float> picks = to_host(received[0].value), probs = to_host(received[1].value);
  routing->picks.assign(picks.begin(), picks.end());
  routing->probs.assign(probs.begin(), probs.end());
  routing->probs_gradient = received[1].slot;
  return routing;
}

// What the gates score.
Var MixtureOfControl::scored(Tape* tape, const Var& state) const {
  if (spec_.gate_input == GateInput::raw) return state;
  return autograd::norm(tape, kernels::NormKind::rms, kGateNormEpsilon, state, unit_, {});
}

Var MixtureOfControl::apply(std::int64_t layer, BlockSite site, const model::Pass& pass, Tape* tape,
                            const Var& state, const Var& sum) {
  if (pass.attend) return decode(layer, site, pass, state, sum);
  auto* routing = dynamic_cast<Routing*>(pass.state.get());
  FATHOM_CHECK(routing != nullptr, "a pass through layer ", layer, " that no begin_pass() began");
  const std::size_t gate = gate_of(site);
  const std::int64_t first = static_cast<std::int64_t>(gate) * model_.layers;
  std::shared_ptr<const Decision>& decision = routing->decisions[{layer, index(site)}];
  comm::Communicator* dp = routing->training && spec_.scope == Scope::global ? dp_ : nullptr;
  const Var input = scored(tape, state);
  const Routed routed = route(tape, spec_.rule(), input, gates_[gate], routing->groups, {tp_, dp},
                              {routing->probs_gradient, first}, decision);
  if (!decision) {
    decision = routed.decision;
    if (observe) observe(layer, site, *decision);
    for (std::size_t i = 0; i < decision->picks.size(); ++i) {
      routing->picks[static_cast<std::size_t>(first) + i] += decision->picks[i];
      routing->probs[static_cast<std::size_t>(first) + i] += decision->probs[i];
    }
    const std::int64_t row = spec_.site_count() == 2 ? static_cast<std::int64_t>(index(site)) : 0;
    if (routing->training)
      for (const Choice& choice : decision->groups) usage_.add(row, layer, choice.experts);
    if (routing->training && largest_token_part)
      largest_token_part =
          std::max(*largest_token_part, largest_part(input.value, routing->groups));
  }
  return moc::control(tape, sum, state, banks_[index(site)]->experts(), static_cast<int>(layer),
                      static_cast<float>(spec_.alpha), routing->groups, routed);
}

std::vector<Var> MixtureOfControl::end_pass(const model::Pass& pass, bool supervised) {
  if (spec_.balance == 0) return {};
  const auto& routing = dynamic_cast<const Routing&>(*pass.state);
  if (last_stage_) {
    if (supervised || spec_.balance_scope == BalanceScope::global) add_balance(routing);
    return {};
  }
  const Shape shape{1, spec_.gate_count() * model_.layers};
  return {Var(Tensor::from_host(*device_, shape, narrow(routing.picks))),
          Var(Tensor::from_host(*device_, shape, narrow(routing.probs)), routing.probs_gradient)};
}

void MixtureOfControl::add_balance(const Routing& routing) {
  const double sites = spec_.site_count() / spec_.gate_count();  // that share a gate
  const int experts = static_cast<int>(model_.layers);
  std::vector<double> picks = routing.picks;
  // Layers and sites pool their tokens.
  double tokens = routing.groups.tokens() * experts * sites;
  if (dp_ != nullptr && spec_.balance_scope == BalanceScope::global) {
    dp_->all_reduce(picks.data(), picks.size(), comm::ReduceOp::sum);
    dp_->all_reduce(&tokens, 1, comm::ReduceOp::sum);
  }
  const double gates = spec_.gate_count();
  const double scale = spec_.balance / static_cast<double>(balanced_) / gates;
  std::vector<float> gradient;
  for (int gate = 0; gate < spec_.gate_count(); ++gate) {
    const routing::Balance balance =
        routing::balance_of(picks.data() + gate * experts, routing.probs.data() + gate * experts,
                            experts, tokens, spec_.top_k);
    balance_sum_ += balance.value / gates;
    for (const double value : balance.gradient)
      gradient.push_back(static_cast<float>(scale * value));
  }
  const auto width = static_cast<std::int64_t>(gradient.size());
  routing.probs_gradient->add(Tensor::from_host(*device_, {1, width}, gradient));
}

std::shared_ptr<model::PassState> MixtureOfControl::begin_decoding() {
  return std::make_shared<Decoding>();
}

// Prompts decide, each for itself; rows of running sequences take what theirs decided.
Var MixtureOfControl::decode(std::int64_t layer, BlockSite site, const model::Pass& pass,
                             const Var& state, const Var& sum) {
  auto* decoding = dynamic_cast<Decoding*>(pass.state.get());
  FATHOM_CHECK(decoding != nullptr, "decoding without begin_decoding()");
  auto& choices = decoding->choices[{layer, index(site)}];
  const autograd::TokenRows& rows = *pass.rows;
  const std::size_t prompts = rows.prompts.size();
  if (prompts > 0) {
    autograd::TokenRows only;
    only.starts.assign(rows.starts.begin(),
                       rows.starts.begin() + static_cast<std::ptrdiff_t>(prompts) + 1);
    only.prompts = rows.prompts;
    const Groups groups = make_groups(*device_, only, Scope::sequence, Tokens::all);
    const Var states(state.value.slice_rows(0, groups.rows()));
    const Routed routed = route(nullptr, spec_.rule(), scored(nullptr, states),
                                gates_[gate_of(site)], groups, {tp_, nullptr}, {});
    for (std::size_t p = 0; p < prompts; ++p)
      choices[pass.slots.at(p)] = routed.decision->groups[p];
  }
  auto decision = std::make_shared<Decision>();
  for (const std::int32_t slot : pass.slots) decision->groups.push_back(choices.at(slot));
  Groups groups;
  groups.starts = rows.starts;
  return moc::control(nullptr, sum, state, banks_[index(site)]->experts(), static_cast<int>(layer),
                      static_cast<float>(spec_.alpha), groups, {decision, Var()});
}

}  // namespace fathom::methods::moc
