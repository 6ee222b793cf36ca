#pragma once

#include <functional>
#include <memory>

#include "diagnose/moc/sites.h"

namespace fathom::diagnose::moc {

/// A site of a block at work: x + f(x) is computed, the control's turn has come.
struct SiteCall {
  std::int64_t layer = 0;
  model::BlockSite site = model::BlockSite::attention;
  const model::Pass& pass;
  autograd::Tape* tape = nullptr;
  const autograd::Var& state;                     ///< x [n, hidden]
  const autograd::Var& sum;                       ///< x + f(x); of post-norm blocks, its norm
  const model::ResidualControl* inner = nullptr;  ///< null where the method has no control

  std::size_t index() const { return site_index(layer, site); }
  /// What the model itself does: adds the control to `sum`, in place.
  autograd::Var apply() const {
    return inner != nullptr ? inner->apply(pass, tape, state, sum) : sum;
  }
};

/// Decides what follows a site.
using SiteHook = std::function<autograd::Var(const SiteCall&)>;

/// Another extension, or none, with `hook` in charge of every site of every layer. For passes that
/// train nothing.
class WatchedSites : public model::StageExtension {
 public:
  explicit WatchedSites(std::unique_ptr<model::StageExtension> inner) : inner_(std::move(inner)) {}

  SiteHook hook;  ///< must be set while blocks run

  void begin(Device& device, const model::StagePlan& plan, comm::Communicator* tp,
             model::ParameterSet& parameters) override;
  std::unique_ptr<model::LinearAdapter> adapt(const model::LinearSite& site,
                                              model::ParameterSet& parameters) override;
  std::unique_ptr<model::ResidualControl> control(std::int64_t layer, model::BlockSite site,
                                                  model::ParameterSet& parameters) override;
  std::unique_ptr<model::StateEdit> edit(std::int64_t layer,
                                         model::ParameterSet& parameters) override;
  void weights_changed() override;
  std::shared_ptr<model::PassState> begin_pass(const model::Pass& pass,
                                               const std::vector<autograd::Var>& received) override;

 private:
  class Watched;
  std::unique_ptr<model::StageExtension> inner_;
};

}  // namespace fathom::diagnose::moc
