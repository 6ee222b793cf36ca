#pragma once

#include <vector>

#include "diagnose/moc/subject.h"

namespace fathom::diagnose::moc {

/// [tokens, hidden], on the host.
using States = std::vector<float>;

/// Which function of a site's state is differentiated.
enum class Part {
  branch,  ///< f alone
  site,    ///< x + f(x) + c(x), routing held
};

/// The Jacobians of every site at the states of a passage, all of them in one pass: each site gets
/// a leaf of its own, so that nothing flows from one to the next.
class SiteJacobians {
 public:
  /// The passage has run before.
  SiteJacobians(Subject& subject, Passage& passage, Part part);

  /// J^T v for each site, through the tape.
  std::vector<States> transposed(const std::vector<States>& v);
  /// J v for each site, by central differences.
  std::vector<States> forward(const std::vector<States>& v);

  std::size_t sites() const { return states_.size(); }
  std::int64_t elements() const { return states_.front().elements(); }

 private:
  std::vector<States> outputs_at(const std::vector<States>& v, double side);
  autograd::Var output(const SiteCall& call) const;
  void take_input_off(States& product, const States& v) const;
  Subject& subject_;
  Passage& passage_;
  Part part_;
  std::vector<Tensor> states_;  ///< that enter each site
  std::vector<double> steps_;   ///< for unit v
};

/// The Jacobian of all blocks, from the embedding's states to the last block's, routing held.
class StackJacobian {
 public:
  StackJacobian(Subject& subject, Passage& passage);

  /// J^T v; squares(s) then is |J_s^T v|^2 for the blocks from site s on.
  States transposed(const States& v);
  double squares(std::size_t site) const { return squares_.at(site); }
  /// J v, by central differences.
  States forward(const States& v);

  std::int64_t elements() const { return input_.elements(); }

 private:
  States run_at(const States& v, double side);
  Subject& subject_;
  Passage& passage_;
  Tensor input_;
  double step_;
  std::vector<double> squares_;
};

/// v / |v| in place; returns |v|.
double normalise(States& v);
/// Independent N(0, 1) numbers, a function of (seed, index) alone.
States gaussian(std::int64_t elements, std::uint32_t seed, std::uint32_t index);

}  // namespace fathom::diagnose::moc
