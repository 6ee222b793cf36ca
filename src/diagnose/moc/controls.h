#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/moc/sites.h"
#include "diagnose/moc/symmetric_eigen.h"
#include "methods/moc/spec.h"

namespace fathom::diagnose::moc {

/// The control of one site of one layer, B A, and the singular values of it.
struct Control {
  std::int64_t layer = 0;
  model::BlockSite site = model::BlockSite::attention;
  std::vector<double> singular_values;  ///< descending; the first is its operator norm G
  double factors = 0;                   ///< |A|_F |B|_F, which scales what rounding can do

  double norm() const { return singular_values.front(); }
};

/// All controls of a checkpoint.
struct Controls {
  std::optional<methods::moc::Spec> moc;  ///< none: Parallel Control, which routes nothing
  std::int64_t layers = 0, hidden = 0, rank = 0;
  double alpha = 1;               ///< of a site's own control
  std::vector<Control> controls;  ///< by layer, attention first

  const Control* find(std::int64_t layer, model::BlockSite site) const;
  /// G of a site's own control, 0 where it has none.
  double norm(std::size_t site) const;
  /// What that would add to a site's growth as Parallel Control: G, or with its alpha if it is.
  double parallel_bound(std::size_t site) const { return (moc ? 1 : alpha) * norm(site); }
};

/// Reads the controls of a checkpoint, whatever grid wrote it; every byte that is read is compared
/// with its checksum. Throws Error(io) for damage, Error(config) if the run trained no controls.
Controls read_controls(const std::filesystem::path& checkpoint);

}  // namespace fathom::diagnose::moc
