#include "diagnose/moc/watched_sites.h"

#include "model/stage.h"

namespace fathom::diagnose::moc {

using autograd::Var;
using model::BlockSite;
using model::ParameterSet;

class WatchedSites::Watched : public model::ResidualControl {
 public:
  Watched(const SiteHook& hook, std::int64_t layer, BlockSite site,
          std::unique_ptr<model::ResidualControl> inner)
      : hook_(hook), layer_(layer), site_(site), inner_(std::move(inner)) {}

  Var apply(const model::Pass& pass, autograd::Tape* tape, const Var& state,
            const Var& sum) const override {
    return hook_({layer_, site_, pass, tape, state, sum, inner_.get()});
  }

 private:
  const SiteHook& hook_;
  std::int64_t layer_;
  BlockSite site_;
  std::unique_ptr<model::ResidualControl> inner_;
};

void WatchedSites::begin(Device& device, const model::StagePlan& plan, comm::Communicator* tp,
                         ParameterSet& parameters) {
  if (inner_) inner_->begin(device, plan, tp, parameters);
}

std::unique_ptr<model::LinearAdapter> WatchedSites::adapt(const model::LinearSite& site,
                                                          ParameterSet& parameters) {
  return inner_ ? inner_->adapt(site, parameters) : nullptr;
}

std::unique_ptr<model::ResidualControl> WatchedSites::control(std::int64_t layer, BlockSite site,
                                                              ParameterSet& parameters) {
  return std::make_unique<Watched>(hook, layer, site,
                                   inner_ ? inner_->control(layer, site, parameters) : nullptr);
}

std::unique_ptr<model::StateEdit> WatchedSites::edit(std::int64_t layer, ParameterSet& parameters) {
  return inner_ ? inner_->edit(layer, parameters) : nullptr;
}

void WatchedSites::weights_changed() {
  if (inner_) inner_->weights_changed();
}

std::shared_ptr<model::PassState> WatchedSites::begin_pass(const model::Pass& pass,
                                                           const std::vector<Var>& received) {
  return inner_ ? inner_->begin_pass(pass, received) : nullptr;
}

}  // namespace fathom::diagnose::moc
