#include "methods/adapters/molex.h"

#include <map>

#include "autograd/mixture_operations.h"
#include "kernels/elementwise.h"
#include "methods/adapters/linear_adapters.h"
#include "methods/adapters/parameter_names.h"
#include "methods/routing/route.h"
#include "model/family.h"
#include "model/stage.h"

namespace fathom::methods::adapters {

using autograd::GradSlot;
using autograd::Tape;
using autograd::TokenRows;
using autograd::Var;
using routing::Decision;
using routing::Groups;
using routing::Scope;
using routing::Tokens;

namespace {

constexpr double kGateStd = 0.02;
constexpr routing::Rule kRule{.top_k = 1, .aggregate = routing::Aggregate::mode};

std::size_t at(std::int64_t layer) {
  return static_cast<std::size_t>(layer);
}

Tensor upload(Device& device, const std::vector<std::int32_t>& values) {
  return Tensor::from_host(device, {static_cast<std::int64_t>(values.size())},
                           std::span<const std::int32_t>(values));
}

std::vector<std::int32_t> rows_of(const TokenRows& rows, const std::vector<std::int64_t>& which) {
  std::vector<std::int32_t> index;
  for (const std::int64_t s : which)
    for (std::int32_t row = rows.starts[at(s)]; row < rows.starts[at(s + 1)]; ++row)
      index.push_back(row);
  return index;
}

// The pass of some of its sequences, all of them whole. Blocks read no token ids.
model::Pass sequences_of(Device& device, const model::Pass& pass,
                         const std::vector<std::int64_t>& which) {
  auto rows = std::make_shared<TokenRows>();
  rows->starts = {0};
  std::vector<std::int32_t> positions, samples;
  for (const std::int64_t s : which) {
    const std::int32_t count = pass.rows->starts[at(s + 1)] - pass.rows->starts[at(s)];
    rows->sample_ids.push_back(pass.rows->sample_ids[at(s)]);
    rows->prompts.push_back({rows->starts.back(), pass.rows->prompts[at(s)].count});
    rows->starts.push_back(rows->starts.back() + count);
    for (std::int32_t position = 0; position < count; ++position) {
      positions.push_back(position);
      samples.push_back(static_cast<std::int32_t>(pass.rows->sample_ids[at(s)]));
    }
  }
  rows->positions = upload(device, positions);
  rows->samples = upload(device, samples);
  model::Pass some = pass;
  some.rows = rows;
  return some;
}

/// A micro-batch on its way through the layers.
struct Routing : model::PassState {
  struct Layer {
    std::shared_ptr<const Decision> decision;  ///< a block that is recomputed decides the same
    std::shared_ptr<GradSlot> balance = std::make_shared<GradSlot>();
  };
  Groups groups;
  bool training = false;
  std::map<std::int64_t, Layer> layers;
};

/// Each running sequence keeps the layers that its prompt chose.
struct Decoding : model::PassState {
  std::map<std::pair<std::int64_t, std::int32_t>, int> chosen;  // by layer and slot
};

class LayerMixture : public model::StageExtension {
 public:
  LayerMixture(const AdapterSpec& spec, const model::ModelSpec& model)
      : spec_(spec), model_(model), gates_(at(model.layers)) {}

  void begin(Device& device, const model::StagePlan& plan, comm::Communicator* tp,
             model::ParameterSet&) override {
    FATHOM_CHECK(plan.has_embedding && plan.has_head, "molex on one of several stages");
    device_ = &device;
    tp_ = tp;
    first_rank_ = plan.shard.rank == 0;
  }
  std::unique_ptr<model::LinearAdapter> adapt(const model::LinearSite& site,
                                              model::ParameterSet& parameters) override {
    const std::vector<std::size_t> parts = targeted(spec_, site);
    if (parts.empty()) return nullptr;
    return make_low_rank(spec_, site, parts, first_rank_, tp_, parameters);
  }
  std::unique_ptr<model::ResidualControl> block_control(std::int64_t layer,
                                                        model::ParameterSet& parameters) override;
  void built(const model::Stage& stage) override { stage_ = &stage; }
  bool crosses_layers() const override { return true; }

  void begin_step(std::int64_t micro_batches) override {
    micro_batches_ = micro_batches;
    balance_sum_ = 0;
  }
  std::shared_ptr<model::PassState> begin_pass(const model::Pass& pass,
                                               const std::vector<Var>&) override;
  std::vector<Var> end_pass(const model::Pass& pass, bool supervised) override;
  std::vector<model::LossTerm> terms() const override;
  std::shared_ptr<model::PassState> begin_decoding() override {
    return std::make_shared<Decoding>();
  }

 private:
  class Control;

  Var apply(std::int64_t layer, const model::Pass& pass, Tape* tape, const Var& in, const Var& out);
  std::vector<int> choose(std::int64_t layer, const model::Pass& pass, Tape* tape, const Var& in);
  std::vector<int> choose_in_decoding(std::int64_t layer, const model::Pass& pass, const Var& in);
  Var mix(Tape* tape, const Var& own, const Var& other) const;

  AdapterSpec spec_;
  model::ModelSpec model_;
  Device* device_ = nullptr;
  comm::Communicator* tp_ = nullptr;
  const model::Stage* stage_ = nullptr;
  bool first_rank_ = true;
  std::vector<Var> gates_;  // by layer
  std::int64_t micro_batches_ = 0;
  double balance_sum_ = 0;
};

/// Around one block; the mixture does the work.
class LayerMixture::Control : public model::ResidualControl {
 public:
  Control(LayerMixture& parent, std::int64_t layer) : parent_(parent), layer_(layer) {}
  Var apply(const model::Pass& pass, Tape* tape, const Var& in, const Var& out) const override {
    return parent_.apply(layer_, pass, tape, in, out);
  }

 private:
  LayerMixture& parent_;
  std::int64_t layer_;
};

std::unique_ptr<model::ResidualControl> LayerMixture::block_control(
    std::int64_t layer, model::ParameterSet& parameters) {
  const Shape shape{model_.hidden, model_.layers};
  auto part = whole_part(molex_gate_name(model_, layer), shape, first_rank_);
  part.init_std = kGateStd;
  part.decay = false;
  parameters.declare(&gates_[at(layer)], shape, {std::move(part)});
  return std::make_unique<Control>(*this, layer);
}

std::shared_ptr<model::PassState> LayerMixture::begin_pass(const model::Pass& pass,
                                                           const std::vector<Var>&) {
  auto routing = std::make_shared<Routing>();
  routing->training = pass.tape != nullptr;
  routing->groups = make_groups(
      *device_, *pass.rows, routing->training ? Scope::microbatch : Scope::sequence, Tokens::all);
  return routing;
}

std::vector<Var> LayerMixture::end_pass(const model::Pass& pass, bool supervised) {
  const auto& routing = dynamic_cast<const Routing&>(*pass.state);
  if (!supervised || spec_.balance == 0) return {};
  const int experts = static_cast<int>(model_.layers);
  const double scale = spec_.balance / static_cast<double>(micro_batches_ * model_.layers);
  for (const auto& [number, layer] : routing.layers) {
    const routing::Balance balance =
        routing::balance_of(layer.decision->picks.data(), layer.decision->probs.data(), experts,
                            routing.groups.tokens(), kRule.top_k);
    balance_sum_ += balance.value / experts;
    std::vector<float> gradient;
    for (const double value : balance.gradient)
      gradient.push_back(static_cast<float>(scale * value));
    layer.balance->add(Tensor::from_host(*device_, {1, experts}, gradient));
  }
  return {};
}

std::vector<model::LossTerm> LayerMixture::terms() const {
  if (spec_.balance == 0) return {};
  return {{"molex_balance", spec_.balance, balance_sum_, static_cast<double>(micro_batches_)}};
}

// The layer that each sequence takes.
std::vector<int> LayerMixture::choose(std::int64_t layer, const model::Pass& pass, Tape* tape,
                                      const Var& in) {
  auto* routing = dynamic_cast<Routing*>(pass.state.get());
  FATHOM_CHECK(routing != nullptr, "a pass through layer ", layer, " that no begin_pass() began");
  Routing::Layer& own = routing->layers[layer];
  const bool balanced = routing->training && spec_.balance > 0;
  own.decision = route(tape, kRule, in, gates_[at(layer)], routing->groups, {.tp = tp_},
                       {balanced ? own.balance : nullptr, 0}, own.decision)
                     .decision;
  std::vector<int> chosen;
  for (std::size_t s = 0; s + 1 < pass.rows->starts.size(); ++s) {
    const std::size_t group = own.decision->groups.size() == 1 ? 0 : s;
    chosen.push_back(own.decision->groups[group].experts.front());
  }
  return chosen;
}

std::vector<int> LayerMixture::choose_in_decoding(std::int64_t layer, const model::Pass& pass,
                                                  const Var& in) {
  auto* decoding = dynamic_cast<Decoding*>(pass.state.get());
  FATHOM_CHECK(decoding != nullptr, "decoding without begin_decoding()");
  const std::size_t prompts = pass.rows->prompts.size();
  if (prompts > 0) {
    TokenRows only;
    only.starts.assign(pass.rows->starts.begin(),
                       pass.rows->starts.begin() + static_cast<std::ptrdiff_t>(prompts) + 1);
    only.prompts = pass.rows->prompts;
    const Groups groups = make_groups(*device_, only, Scope::sequence, Tokens::all);
    const auto decision = route(nullptr, kRule, Var(in.value.slice_rows(0, groups.rows())),
                                gates_[at(layer)], groups, {.tp = tp_}, {})
                              .decision;
    for (std::size_t p = 0; p < prompts; ++p)
      decoding->chosen[{layer, pass.slots[p]}] = decision->groups[p].experts.front();
  }
  std::vector<int> chosen;
  for (const std::int32_t slot : pass.slots) chosen.push_back(decoding->chosen.at({layer, slot}));
  return chosen;
}

Var LayerMixture::mix(Tape* tape, const Var& own, const Var& other) const {
  const auto n = static_cast<std::size_t>(own.value.rows());
  const auto share = static_cast<float>(spec_.own_share);
  std::vector<float> weights(2 * n, share);
  for (std::size_t r = 0; r < n; ++r) weights[2 * r + 1] = 1.0f - share;
  return autograd::mixture(tape, Var(Tensor::from_host(*device_, {own.value.rows(), 2}, weights)),
                           {own, other});
}

Var LayerMixture::apply(std::int64_t layer, const model::Pass& pass, Tape* tape, const Var& in,
                        const Var& out) {
  const std::vector<int> chosen =
      pass.attend ? choose_in_decoding(layer, pass, in) : choose(layer, pass, tape, in);
  std::map<int, std::vector<std::int64_t>> takers;
  for (std::size_t s = 0; s < chosen.size(); ++s)
    takers[chosen[s]].push_back(static_cast<std::int64_t>(s));
  const auto pass_of = [&](const std::vector<std::int64_t>& sequences) {
    if (pass.attend) return pass.aside(sequences, layer);
    return takers.size() == 1 ? pass : sequences_of(*device_, pass, sequences);
  };
  if (takers.size() == 1) {
    const auto& [expert, all] = *takers.begin();
    if (expert == layer) return out;
    return mix(tape, out, stage_->run_block(expert, pass_of(all), tape, in));
  }
  FATHOM_CHECK(tape == nullptr, "the sequences of a micro-batch choose together in training");
  for (const auto& [expert, sequences] : takers) {
    if (expert == layer) continue;
    const Tensor index = upload(*device_, rows_of(*pass.rows, sequences));
    const Var x = autograd::gather(nullptr, in, index), own = autograd::gather(nullptr, out, index);
    const Var mixed = mix(nullptr, own, stage_->run_block(expert, pass_of(sequences), nullptr, x));
    kernels::scatter_rows(mixed.value, index, out.value);
  }
  return out;
}

}  // namespace

std::string molex_gate_name(const model::ModelSpec& model, std::int64_t layer) {
  return kAdapterPrefix + model::layer_name(model::names_of(model.family), layer, "molex.gate");
}

std::unique_ptr<model::StageExtension> make_layer_mixture(const AdapterSpec& spec,
                                                          const model::ModelSpec& model) {
  return std::make_unique<LayerMixture>(spec, model);
}

}  // namespace fathom::methods::adapters
