#include "methods/mode/late_vote.h"

#include <algorithm>
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
  return size_of(spec, model, {model.layers - spec.k + 1, model.layers + 1, true});
}

ModeSize size_of(const ModeSpec& spec, const model::ModelSpec& model, const VotePart& part) {
  const std::int64_t norm = model.hidden * (model.norm == kernels::NormKind::layer ? 2 : 1);
  const std::int64_t norms =
      std::max<std::int64_t>(0, std::min(part.end, model.layers) - part.first);
  ModeSize size;
  size.added = (spec.norms == Norms::own ? norms * norm : 0) +
               (part.router && spec.routed() ? spec.k * (model.hidden + 1) : 0);
  size.trained = size.added + (part.end > model.layers && spec.norms != Norms::none ? norm : 0);
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
  return site(part_of(1, layers_ + 1));
}

VotePart LateVote::part_of(std::int64_t first, std::int64_t end) const {
  const std::int64_t late = gate_layer() + 1;
  return {std::max(first, late), std::max(end, late), first <= late && late < end};
}

Site LateVote::site(const VotePart& part) const {
  Site site{.states = {}, .at_head = part.end > layers_};
  if (part.router && spec_.routed()) site.states.push_back({Side::student, gate_layer()});
  for (std::int64_t i = part.first; i < std::min(part.end, layers_); ++i)
    site.states.push_back({Side::student, i});
  return site;
}

void LateVote::declare(bool owned, model::ParameterSet& parameters, const VotePart& part) {
  part_ = part;
  if (part.router && spec_.routed()) {
    parameters.declare(&declared_router_.weight, {spec_.k, hidden_},
                       {model::whole_part(kRouterWeight, {spec_.k, hidden_}, owned)});
    parameters.declare(&declared_router_.bias, {spec_.k},
                       {model::whole_part(kRouterBias, {spec_.k}, owned)});
  }
  if (spec_.norms != Norms::own) return;
  norms_.resize(static_cast<std::size_t>(spec_.k - 1));
  for (std::int64_t i = part.first; i < std::min(part.end, layers_); ++i) {
    model::NormWeights& norm = norms_[static_cast<std::size_t>(i - gate_layer() - 1)];
    const std::string name = norm_name(i);
    parameters.declare(&norm.weight, {hidden_},
                       {model::whole_part(name + ".weight", {hidden_}, owned)});
    if (biased_)
      parameters.declare(&norm.bias, {hidden_},
                         {model::whole_part(name + ".bias", {hidden_}, owned)});
  }
}

void LateVote::initialise(const NormValues& final_norm, RouterInit router) {
  for (const model::NormWeights& norm : norms_) {
    if (!norm.weight.defined()) continue;  // another stage's
    copy_from_host(norm.weight.value, final_norm.weight);
    if (biased_) copy_from_host(norm.bias.value, final_norm.bias);
  }
  if (!spec_.routed() || !part_.router) return;
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

Var LateVote::normed(const model::Stage& stage, const model::Pass& pass, std::int64_t layer,
                     const Var& state) const {
  if (spec_.norms == Norms::none) return state;
  const model::NormWeights& norm =
      spec_.norms == Norms::shared
          ? stage.final_norm()
          : norms_[static_cast<std::size_t>(layer - (layers_ - declared_k_) - 1)];
  return autograd::norm(pass.tape, stage.spec().norm, stage.spec().norm_eps, state, norm.weight,
                        norm.bias);
}

Var LateVote::equal_weights(Device& device, std::int64_t rows) const {
  Var weights(Tensor::empty(device, {rows, std::int64_t{spec_.k}}));
  kernels::fill(weights.value, 1.0f / static_cast<float>(spec_.k));
  return weights;
}

Var LateVote::expert(const model::Stage& last, const model::Pass& pass, std::int64_t layer,
                     const Var& state) const {
  if (layer == layers_) return last.finish(pass, state);
  return last.project(pass, normed(last, pass, layer, state));
}

Votes LateVote::votes(const model::Stage& last, const model::Pass& pass,
                      const std::function<Var(std::int64_t)>& state, const Var& last_normed) const {
  Votes votes;
  for (std::int64_t i = gate_layer() + 1; i < layers_; ++i)
    votes.experts.push_back(expert(last, pass, i, state(i)));
  votes.experts.push_back(last.project(pass, last_normed));
  votes.weights = spec_.routed()
                      ? route(pass.tape, spec_, last.spec().norm_eps, router(), state(gate_layer()),
                              spec_.kept())
                      : equal_weights(last_normed.value.device(), last_normed.value.rows());
  return votes;
}

RunningVote LateVote::add(const model::Stage& stage, const model::Pass& pass,
                          const std::function<Var(std::int64_t)>& state, RunningVote so_far) const {
  std::vector<Var> experts;
  for (std::int64_t i = part_.first; i < std::min(part_.end, layers_); ++i)
    experts.push_back(normed(stage, pass, i, state(i)));
  if (!so_far.weights.defined()) {
    const Tensor& like = experts.empty() ? so_far.sum.value : experts.front().value;
    so_far.weights = spec_.routed() ? route(pass.tape, spec_, stage.spec().norm_eps, router(),
                                            state(gate_layer()), spec_.kept())
                                    : equal_weights(like.device(), like.rows());
  }
  if (!experts.empty())
    so_far.sum = autograd::add_to_mixture(pass.tape, so_far.sum, so_far.weights,
                                          part_.first - gate_layer() - 1, experts);
  return so_far;
}

Var LateVote::complete(const model::Stage& last, const model::Pass& pass, const RunningVote& others,
                       const Var& last_normed) const {
  return last.project(pass, autograd::add_to_mixture(pass.tape, others.sum, others.weights,
                                                     spec_.k - 1, {last_normed}));
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
