#include "methods/mode/late_vote.h"

#include <cmath>

#include "autograd/mixture_operations.h"
#include "core/parameter_names.h"

namespace fathom::methods::mode {

using autograd::Var;

namespace {

constexpr double kLastWeight = 0.9;  // of the last layer before anything is learnt

const std::string kRouterWeight = str(kMethodPrefix, "mode.router.weight");
const std::string kRouterBias = str(kMethodPrefix, "mode.router.bias");

std::string norm_name(std::int64_t layer) {
  return str(kMethodPrefix, "mode.norm.", layer);
}

// The same memory, and the same gradients, from a row on.
Var rows_from(const Var& x, std::int64_t first) {
  const auto cut = [&](const Tensor& tensor) {
    return tensor.slice_rows(first, tensor.shape()[0] - first);
  };
  if (!x.needs_grad()) return Var(cut(x.value));
  return Var(cut(x.value), std::make_shared<autograd::GradSlot>(cut(x.slot->grad())));
}

}  // namespace

bool has_late_states(const model::ModelSpec& model) {
  return model.pre_norm && model.final_norm;
}

void check(const ModeSpec& spec, const model::ModelSpec& model) {
  require(spec.k >= 1 && spec.k <= model.layers, ErrorKind::config, "mode.k = ", spec.k,
          ": the model has ", model.layers, " layers; give 1 to ", model.layers);
  require(spec.top_k >= 0 && spec.top_k <= spec.k, ErrorKind::config, "mode.top_k = ", spec.top_k,
          " of mode.k = ", spec.k, " late layers; give at most so many, or 0 for all");
  require(has_late_states(model), ErrorKind::config,
          "mode.enabled: this model has its norms behind the residual sums and none before the "
          "head, so that its layers have no un-normalised states to vote with; models with norms "
          "in front of each layer are supported");
}

ModeSize size_of(const ModeSpec& spec, const model::ModelSpec& model) {
  const std::int64_t norm = model.hidden * (model.norm == kernels::NormKind::layer ? 2 : 1);
  const bool own = spec.norms == Norms::own;
  ModeSize size;
  size.added = (own ? (spec.k - 1) * norm : 0) + (spec.routed() ? spec.k * (model.hidden + 1) : 0);
  size.trained = size.added + (spec.norms != Norms::none ? norm : 0);
  return size;
}

bool is_last_norm(const std::string& name, const model::ModelSpec& model) {
  const std::string norm = model::names_of(model.family).final_norm;
  return name == norm + ".weight" || name == norm + ".bias";
}

LateVote::LateVote(const ModeSpec& spec, const model::ModelSpec& model)
    : spec_(spec),
      declared_k_(spec.k),
      layers_(model.layers),
      hidden_(model.hidden),
      biased_(model.norm == kernels::NormKind::layer) {
  check(spec, model);
}

Site LateVote::site() const {
  Site site{.states = {}, .at_head = true};
  for (std::int64_t i = spec_.routed() ? gate_layer() : gate_layer() + 1; i < layers_; ++i)
    site.states.push_back({Side::student, i});
  return site;
}

void LateVote::declare(bool owned, model::ParameterSet& parameters) {
  if (spec_.routed()) {
    parameters.declare(&declared_router_.weight, {spec_.k, hidden_},
                       {model::whole_part(kRouterWeight, {spec_.k, hidden_}, owned)});
    parameters.declare(&declared_router_.bias, {spec_.k},
                       {model::whole_part(kRouterBias, {spec_.k}, owned)});
  }
  if (spec_.norms != Norms::own) return;
  norms_.resize(static_cast<std::size_t>(spec_.k - 1));
  for (std::size_t j = 0; j < norms_.size(); ++j) {
    const std::string name = norm_name(gate_layer() + 1 + static_cast<std::int64_t>(j));
    parameters.declare(&norms_[j].weight, {hidden_},
                       {model::whole_part(name + ".weight", {hidden_}, owned)});
    if (biased_)
      parameters.declare(&norms_[j].bias, {hidden_},
                         {model::whole_part(name + ".bias", {hidden_}, owned)});
  }
}

void LateVote::initialise(const model::Stage& last, RouterInit router) {
  for (const model::NormWeights& norm : norms_) {
    copy_from_host(norm.weight.value, to_host(last.final_norm().weight.value));
    if (biased_) copy_from_host(norm.bias.value, to_host(last.final_norm().bias.value));
  }
  if (!spec_.routed()) return;
  kernels::fill(declared_router_.weight.value, 0.0f);
  std::vector<float> bias(static_cast<std::size_t>(declared_k_), 0.0f);
  if (router == RouterInit::last)
    bias.back() = static_cast<float>(std::log(kLastWeight * (declared_k_ - 1) / (1 - kLastWeight)));
  copy_from_host(declared_router_.bias.value, bias);
}

void LateVote::keep_last(int k, model::ParameterSet* last) {
  FATHOM_CHECK(k >= 2 && k <= declared_k_, k, " of ", declared_k_, " late layers");
  spec_.k = k;
  if (last == nullptr) return;
  const std::int64_t dropped = declared_k_ - k;
  for (std::size_t j = 0; j < norms_.size(); ++j) {
    const std::string name = norm_name(layers_ - declared_k_ + 1 + static_cast<std::int64_t>(j));
    const std::int64_t rows = static_cast<std::int64_t>(j) < dropped ? hidden_ : 0;
    last->leave_out(name + ".weight", rows);
    if (biased_) last->leave_out(name + ".bias", rows);
  }
  if (!spec_.routed()) return;
  last->leave_out(kRouterWeight, dropped);
  last->leave_out(kRouterBias, dropped);
  router_ = {rows_from(declared_router_.weight, dropped),
             rows_from(declared_router_.bias, dropped)};
}

const model::NormWeights& LateVote::norm_of(const model::Stage& last, std::int64_t layer) const {
  if (spec_.norms == Norms::shared) return last.final_norm();
  return norms_[static_cast<std::size_t>(layer - (layers_ - declared_k_) - 1)];
}

Var LateVote::expert(const model::Stage& last, const model::Pass& pass, std::int64_t layer,
                     const Var& state) const {
  if (layer == layers_) return last.finish(pass, state);
  if (spec_.norms == Norms::none) return last.project(pass, state);
  const model::NormWeights& norm = norm_of(last, layer);
  return last.project(pass, autograd::norm(pass.tape, last.spec().norm, last.spec().norm_eps, state,
                                           norm.weight, norm.bias));
}

Votes LateVote::votes(const model::Stage& last, const model::Pass& pass,
                      const std::function<Var(std::int64_t)>& state, const Var& last_normed) const {
  Votes votes;
  for (std::int64_t i = gate_layer() + 1; i < layers_; ++i)
    votes.experts.push_back(expert(last, pass, i, state(i)));
  votes.experts.push_back(last.project(pass, last_normed));
  if (spec_.routed()) {
    votes.weights =
        route(pass.tape, spec_, last.spec().norm_eps, router(), state(gate_layer()), spec_.kept());
    return votes;
  }
  votes.weights = Var(
      Tensor::empty(last_normed.value.device(), {last_normed.value.rows(), std::int64_t{spec_.k}}));
  kernels::fill(votes.weights.value, 1.0f / static_cast<float>(spec_.k));
  return votes;
}

Var route(autograd::Tape* tape, const ModeSpec& spec, float norm_eps, const RouterWeights& router,
          const Var& x, std::int64_t kept) {
  Var read = x;
  if (spec.router_input == RouterInput::rms) {
    Var ones(Tensor::empty(x.value.device(), {x.value.columns()}));
    kernels::fill(ones.value, 1.0f);
    read = autograd::norm(tape, kernels::NormKind::rms, norm_eps, x, ones, Var());
  }
  const Var scores = autograd::linear(tape, read, router.weight, autograd::WeightLayout::out_in,
                                      router.bias, kernels::Factors::exact);
  return autograd::topk_softmax(tape, scores, kept);
}

Var mix(autograd::Tape* tape, const Votes& votes) {
  if (votes.experts.size() == 1) return votes.experts.front();  // its weight is 1
  return autograd::mixture(tape, votes.weights, votes.experts);
}

}  // namespace fathom::methods::mode
