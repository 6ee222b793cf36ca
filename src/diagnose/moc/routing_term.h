#pragma once

#include "diagnose/moc/subject.h"

namespace fathom::diagnose::moc {

/// The operator norm, over [tokens x hidden], of what holding the routing at a site leaves out:
/// (1 - alpha) sum_k g_k(x) dpi_k/dx, exactly, the largest of the passage's groups. With N tokens
/// that decide, a change dX moves mean scores by W^T (sum over these tokens of J_n dX_n) / N, J_n
/// being the Jacobian of what the gate scores (moc.gate_input), and weights by the softmax's
/// Jacobian of that. 0 for one expert under topk_softmax. Flips of the choice itself are no part of
/// it. Called from a site's hook in a passage that has run; x enters the site.
double routing_term(const Subject& subject, const Passage& passage, const SiteCall& call);

}  // namespace fathom::diagnose::moc
