#pragma once

#include <memory>

#include "methods/adapters/adapter_spec.h"
#include "model/stage.h"

namespace fathom::methods::adapters {

/// A linear adapter that has something to set from the base weights.
class LinearAdapterPart : public model::LinearAdapter {
 public:
  /// See model::StageExtension.
  virtual void initialise() {}
  virtual void weights_changed() {}
};

/// The parts of a site that the spec targets, as indices; empty if there are none.
std::vector<std::size_t> targeted(const AdapterSpec& spec, const model::LinearSite& site);

/// Dropout of an adapter's input in part `part` of a site: a function of (seed, step, sample,
/// layer, module, logical element).
kernels::Dropout adapter_dropout(const model::Pass& pass, const AdapterSpec& spec,
                                 const model::LinearSite& site, std::size_t part);

/// Declares an [outputs, columns] parameter (a vector for columns = 0) that is divided as the
/// outputs of a site's part are.
model::PartDeclaration output_part(const model::LinearSite& site, const model::LinearPart& part,
                                   const std::string& name, std::int64_t columns);

/// LoRA and DoRA on the targeted parts of one matrix.
std::unique_ptr<LinearAdapterPart> make_low_rank(const AdapterSpec& spec,
                                                 const model::LinearSite& site,
                                                 const std::vector<std::size_t>& parts,
                                                 bool first_rank, comm::Communicator* tp,
                                                 model::ParameterSet& parameters);

/// VeRA; `a` [rank, widest input] and `b` [widest output, rank] must outlive it.
std::unique_ptr<LinearAdapterPart> make_vera(const AdapterSpec& spec, const model::LinearSite& site,
                                             const std::vector<std::size_t>& parts, bool first_rank,
                                             const autograd::Var& a, const autograd::Var& b,
                                             model::ParameterSet& parameters);

}  // namespace fathom::methods::adapters
