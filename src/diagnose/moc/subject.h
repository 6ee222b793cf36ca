#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "data/batch.h"
#include "diagnose/moc/watched_sites.h"
#include "methods/moc/extension.h"
#include "model/stage.h"

namespace fathom::diagnose::moc {

/// One micro-batch in front of a model. What was decided in its first run is taken again in every
/// later one, so that all of them look at one and the same function.
struct Passage {
  model::Pass pass;
  std::optional<methods::moc::Groups> groups;  ///< that decide; only with mixture of control
  std::map<std::size_t, std::shared_ptr<const methods::moc::Decision>> decisions;  ///< by site

  std::int64_t tokens() const { return pass.rows->starts.back(); }
};

/// The model of a checkpoint with its method, whole on this rank, for passes that end before the
/// head. It routes as in evaluation (moc.eval_scope).
class Subject {
 public:
  /// Reads every weight, compared with its checksum. Throws Error(io), or Error(config) for methods
  /// that change states elsewhere than at sites (LoReFT).
  Subject(Device& device, const std::filesystem::path& checkpoint);

  Device& device() const { return stage_->device(); }
  const model::ModelSpec& model() const { return model_; }
  std::size_t sites() const { return static_cast<std::size_t>(2 * model_.layers); }
  /// Null without mixture of control.
  const methods::moc::Spec* moc() const { return moc_spec_.enabled ? &moc_spec_ : nullptr; }
  /// The gate that a site routes by; only with mixture of control.
  const autograd::Var& gate(model::BlockSite site) const { return moc_->gate(site); }

  Passage begin(const data::MicroBatch& batch);
  /// The states that enter the first block.
  Tensor embed(Passage& passage) const;
  /// Runs the blocks on `x`, `hook` in charge of their sites, and returns what follows the last.
  autograd::Var run(Passage& passage, autograd::Tape* tape, const autograd::Var& x,
                    const SiteHook& hook);

  /// What the model does at a site, its routing held: the experts and weights of the passage, which
  /// count as constants. Adds to call.sum in place.
  autograd::Var control_held(const Passage& passage, const SiteCall& call) const;

  /// A site's own control g(x) and the routed sum of pi_k g_k(x), as if alpha were 1 and 0; the
  /// second only with mixture of control. For sites that have a control of their own.
  Tensor own(const Passage& passage, const SiteCall& call, const Tensor& x) const;
  Tensor routed(const Passage& passage, const SiteCall& call, const Tensor& x) const;
  /// Each group's expert number `choice` alone, with weight 1; only with mixture of control.
  Tensor chosen(const Passage& passage, const SiteCall& call, const Tensor& x,
                std::size_t choice) const;

 private:
  std::unique_ptr<model::StageExtension> make_method(const std::string& adapter,
                                                     const std::string& moc,
                                                     const std::string& origin);
  autograd::Var mix(autograd::Tape* tape, const SiteCall& call, const autograd::Var& x,
                    const autograd::Var& y, double alpha, const methods::moc::Groups& groups,
                    std::shared_ptr<const methods::moc::Decision> decision) const;

  model::ModelSpec model_;
  methods::moc::Spec moc_spec_;
  methods::moc::MixtureOfControl* moc_ = nullptr;
  std::unique_ptr<WatchedSites> extension_;
  std::unique_ptr<model::Stage> stage_;
};

}  // namespace fathom::diagnose::moc
