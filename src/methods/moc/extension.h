#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "methods/moc/bank.h"
#include "methods/moc/spec.h"
#include "methods/moc/usage.h"
#include "model/seams.h"
#include "model/spec.h"
#include "model/stage.h"

namespace fathom::methods::moc {

/// The names of parameters; `site` is null for a gate that both sites share.
std::string gate_name(const model::BlockSite* site);
std::string control_name(std::int64_t layer, model::BlockSite site, char matrix);

/// Mixture of control on one stage: controls of its layers, the bank of all layers' and the gates.
/// A control is computed whole on every tensor rank. The balance term of a micro-batch is
/// routing::balance_of over all layers and sites of each gate, the mean over gates, then over the
/// step's supervised micro-batches (or one for the whole step). Its sums travel with the
/// micro-batch and the last stage evaluates it.
class MixtureOfControl : public model::StageExtension {
 public:
  /// `layer_counts` are the layers of each stage; `pp` may be null for one stage, `dp` for one
  /// replica. Throws Error(config) if the model has fewer layers than a token picks.
  MixtureOfControl(const Spec& spec, const model::ModelSpec& model,
                   const std::vector<std::int64_t>& layer_counts, comm::Communicator* pp,
                   comm::Communicator* dp);

  void begin(Device& device, const model::StagePlan& plan, comm::Communicator* tp,
             model::ParameterSet& parameters) override;
  std::unique_ptr<model::ResidualControl> control(std::int64_t layer, model::BlockSite site,
                                                  model::ParameterSet& parameters) override;
  void weights_changed() override;
  bool meets() const override { return dp_ != nullptr && spec_.meets(); }
  void begin_step(std::int64_t micro_batches) override;
  std::vector<model::CarriedRow> carried() const override;
  std::shared_ptr<model::PassState> begin_pass(const model::Pass& pass,
                                               const std::vector<autograd::Var>& received) override;
  std::vector<autograd::Var> end_pass(const model::Pass& pass, bool supervised) override;
  std::shared_ptr<model::PassState> begin_decoding() override;
  void finish_gradients() override;
  std::vector<model::LossTerm> terms() const override;

  /// The controls of all layers at a kind of site, and the gate that it routes by; valid once
  /// weights_changed() has run.
  const Experts& experts(model::BlockSite site) const;
  const autograd::Var& gate(model::BlockSite site) const { return gates_[gate_of(site)]; }

  /// What this stage's training passes chose since begin_step().
  const Usage& usage() const { return usage_; }

  /// Called with every decision that is taken (layer, site), replays and decoding left out; may be
  /// empty.
  std::function<void(std::int64_t, model::BlockSite, const Decision&)> observe;

  /// Bytes that this rank has received from other stages in exchanges of the bank, values and
  /// gradients.
  std::int64_t bytes_received() const;

  /// If set, training passes raise it to the largest_part() of what gates score (with
  /// Scope::global, of this rank's tokens).
  std::optional<double> largest_token_part;

 private:
  class Control;
  struct Routing;
  struct Decoding;
  static constexpr std::array kSites = {model::BlockSite::attention, model::BlockSite::mlp};

  bool has(model::BlockSite site) const { return spec_.has(site == model::BlockSite::attention); }
  std::size_t gate_of(model::BlockSite site) const;
  autograd::Var apply(std::int64_t layer, model::BlockSite site, const model::Pass& pass,
                      autograd::Tape* tape, const autograd::Var& state, const autograd::Var& sum);
  autograd::Var scored(autograd::Tape* tape, const autograd::Var& state) const;
  autograd::Var decode(std::int64_t layer, model::BlockSite site, const model::Pass& pass,
                       const autograd::Var& state, const autograd::Var& sum);
  void add_balance(const Routing& routing);

  Spec spec_;
  model::ModelSpec model_;
  std::vector<std::int64_t> layer_counts_;
  comm::Communicator *pp_, *dp_;
  comm::Communicator* tp_ = nullptr;
  Device* device_ = nullptr;
  bool last_stage_ = true;
  std::array<std::optional<Bank>, 2> banks_;  // by site
  std::vector<autograd::Var> gates_;
  autograd::Var unit_;         // weights of a norm without any
  std::int64_t balanced_ = 0;  // balance terms of the step, over all ranks
  double balance_sum_ = 0;     // of this rank's
  Usage usage_;
};

}  // namespace fathom::methods::moc
