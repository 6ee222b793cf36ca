#pragma once

#include "diagnose/moc/controls.h"
#include "diagnose/report.h"

namespace fathom::diagnose::moc {

/// Table "norms" and a picture of it: for each control its operator norm G = |B A|, the rest of its
/// strength (Frobenius norm, and how many directions share it: the stable rank |B A|_F^2 / G^2) and
/// the most that it adds to the growth of a state, alpha G.
void report_norms(const Controls& controls, Report& report);

}  // namespace fathom::diagnose::moc
