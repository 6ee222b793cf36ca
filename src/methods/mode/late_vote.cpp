#include "methods/mode/late_vote.h"

#include <cmath>

#include "autograd/mixture_operations.h"
#include "core/parameter_names.h"

namespace fathom::methods::mode {

using autograd::Var;

namespace {

constexpr double kLastWeight = 0.9;  // of the last layer before anything is learnt

model::PartDeclaration whole(std::string name, Shape shape, bool owned) {
  model::PartDeclaration part;
  part.name = str(kMethodPrefix, "mode.", name);
  part.shape = shape;
  part.local_rows = shape[0];
  part.pieces = {{.rows = shape[0], .columns = shape.dims() == 2 ? shape[1] : 1}};
  part.owned = owned;
  return part;
}

}  // namespace

void check(const ModeSpec& spec, const model::ModelSpec& model) {
  require(spec.k >= 1 && spec.k <= model.layers, ErrorKind::config, "mode.k = ", spec.k,
          ": the model has ", model.layers, " layers; give 1 to ", model.layers);
  require(spec.top_k >= 0 && spec.top_k <= spec.k, ErrorKind::config, "mode.top_k = ", spec.top_k,
          " of mode.k = ", spec.k, " late layers; give at most so many, or 0 for all");
  require(model.pre_norm && model.final_norm, ErrorKind::config,
          "mode.enabled: this model has its norms behind the residual sums and none before the "
          "head, so that its layers have no un-normalised states to vote with; models with norms "
          "in front of each layer are supported");
}

bool is_last_norm(const std::string& name, const model::ModelSpec& model) {
  const std::string norm = model::names_of(model.family).final_norm;
  return name == norm + ".weight" || name == norm + ".bias";
}

LateVote::LateVote(const ModeSpec& spec, const model::ModelSpec& model)
    : spec_(spec),
      layers_(model.layers),
      hidden_(model.hidden),
      biased_(model.norm == kernels::NormKind::layer) {
  check(spec, model);
}

Site LateVote::site() const {
  Site site{.states = {}, .at_head = true};
  for (std::int64_t i = spec_.routed() ? first() : first() + 1; i < layers_; ++i)
    site.states.push_back({Side::student, i});
  return site;
}

void LateVote::declare(bool owned, model::ParameterSet& parameters) {
  if (spec_.routed()) {
    parameters.declare(&router_weight_, {spec_.k, hidden_},
                       {whole("router.weight", {spec_.k, hidden_}, owned)});
    parameters.declare(&router_bias_, {spec_.k}, {whole("router.bias", {spec_.k}, owned)});
  }
  if (spec_.norms == Norms::none) return;
  norms_.resize(static_cast<std::size_t>(spec_.k - 1));
  for (std::size_t j = 0; j < norms_.size(); ++j) {
    const std::string name = str("norm.", first() + 1 + static_cast<std::int64_t>(j));
    parameters.declare(&norms_[j].weight, {hidden_}, {whole(name + ".weight", {hidden_}, owned)});
    if (biased_)
      parameters.declare(&norms_[j].bias, {hidden_}, {whole(name + ".bias", {hidden_}, owned)});
  }
}

void LateVote::initialise(const model::Stage& last) {
  for (const model::NormWeights& norm : norms_) {
    copy_from_host(norm.weight.value, to_host(last.final_norm().weight.value));
    if (biased_) copy_from_host(norm.bias.value, to_host(last.final_norm().bias.value));
  }
  if (!spec_.routed()) return;
  kernels::fill(router_weight_.value, 0.0f);
  std::vector<float> bias(static_cast<std::size_t>(spec_.k), 0.0f);
  bias.back() = static_cast<float>(std::log(kLastWeight * (spec_.k - 1) / (1 - kLastWeight)));
  copy_from_host(router_bias_.value, bias);
}

Votes LateVote::votes(const model::Stage& last, const model::Pass& pass,
                      const std::function<Var(std::int64_t)>& state, const Var& last_normed) const {
  Votes votes;
  for (std::int64_t i = first() + 1; i < layers_; ++i) {
    Var x = state(i);
    if (spec_.norms == Norms::own) {
      const model::NormWeights& norm = norms_[static_cast<std::size_t>(i - first() - 1)];
      x = autograd::norm(pass.tape, last.spec().norm, last.spec().norm_eps, x, norm.weight,
                         norm.bias);
    }
    votes.experts.push_back(last.project(pass, x));
  }
  votes.experts.push_back(last.project(pass, last_normed));
  if (!spec_.routed()) {
    votes.weights = Var(Tensor::empty(last_normed.value.device(),
                                      {last_normed.value.rows(), std::int64_t{spec_.k}}));
    kernels::fill(votes.weights.value, 1.0f / static_cast<float>(spec_.k));
    return votes;
  }
  const Var scores = autograd::linear(pass.tape, state(first()), router_weight_,
                                      autograd::WeightLayout::out_in, router_bias_);
  votes.weights = autograd::topk_softmax(pass.tape, scores, spec_.kept());
  return votes;
}

Var mix(autograd::Tape* tape, const Votes& votes) {
  if (votes.experts.size() == 1) return votes.experts.front();  // its weight is 1
  return autograd::mixture(tape, votes.weights, votes.experts);
}

}  // namespace fathom::methods::mode
