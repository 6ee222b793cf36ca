#pragma once

#include <vector>

#include "diagnose/moc/subject.h"

namespace fathom::diagnose::moc {

/// What one site did to the states of a passage, [tokens, hidden] each.
struct SiteRecord {
  std::int64_t layer = 0;
  model::BlockSite site = model::BlockSite::attention;
  bool controlled = false;         ///< it has a control of its own
  std::vector<float> x = {};       ///< that entered it
  std::vector<float> sum = {};     ///< with f(x), before the control
  std::vector<float> out = {};     ///< with the control
  std::vector<float> own = {};     ///< its own control of x, as if alpha were 1; if asked for
  std::vector<float> routed = {};  ///< the routed sum pi_k g_k(x); if asked for, and routed
};

/// Runs the model on a passage, which makes its decisions, and records all sites in the order of
/// the forward pass.
std::vector<SiteRecord> record(Subject& subject, Passage& passage, bool with_parts);

/// Lets every site of `other` do to the recorded states what it would, each by itself: the states
/// behind each site. Both models have the same sites.
std::vector<std::vector<float>> answers_to(Subject& other, const data::MicroBatch& batch,
                                           const std::vector<SiteRecord>& records);

/// The sum of squares of a - b (of a alone without b) in double.
double squares(const float* a, const float* b, std::int64_t count);

}  // namespace fathom::diagnose::moc
