#pragma once

#include "diagnose/moc/controls.h"
#include "diagnose/moc/subject.h"
#include "diagnose/report.h"

namespace fathom::diagnose::moc {

struct JacobianOptions {
  int probes = 16;      ///< Gaussian vectors that norms of whole stretches are estimated from
  int iterations = 20;  ///< of the power method, at most
};

/// Jacobians at one passage's states, [tokens x hidden] to the same, with routing held (its own
/// derivative is bounded in the column routing_term). For each site, by the power method, the
/// operator norm F_t of f's Jacobian; from each layer to the last, by probes v ~ N(0, I) through
/// the tape, the root mean square gain |J|_F / sqrt(tokens x hidden), since E |J^T v|^2 = |J|_F^2;
/// of the whole stack, by the power method, the operator norm. Corollary 4.3 bounds the last two by
/// the products of 1 + F_t + alpha G_t + (1 - alpha) sum_k pi_k G_k over the sites in between. The
/// power method approaches norms from below. Adds table "jacobian", a picture, and the checks
/// "jacobian_gain" and "jacobian_norm". The passage has run before.
void report_jacobians(Subject& subject, Passage& passage, const Controls& controls,
                      const JacobianOptions& options, Report& report);

}  // namespace fathom::diagnose::moc
