#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/moc/symmetric_eigen.h"
#include "methods/moc/spec.h"
#include "model/seams.h"

namespace fathom::diagnose::moc {

/// The control of one site of one layer, B A, and the singular values of it.
struct Control {
  std::int64_t layer = 0;
  model::BlockSite site = model::BlockSite::attention;
  std::vector<double> singular_values;  ///< descending; the first is its operator norm G

  double norm() const { return singular_values.front(); }
};

/// All controls of a checkpoint.
struct Controls {
  std::optional<methods::moc::Spec> moc;  ///< none: Parallel Control, which routes nothing
  std::int64_t layers = 0, hidden = 0, rank = 0;
  double alpha = 1;               ///< of a site's own control
  std::vector<Control> controls;  ///< by layer, attention first

  const Control* find(std::int64_t layer, model::BlockSite site) const;
};

/// "attention" or "mlp".
const char* to_string(model::BlockSite site);

/// Reads the controls of a checkpoint, whatever grid wrote it; every byte that is read is compared
/// with its checksum. Throws Error(io) for damage, Error(config) if the run trained no controls.
Controls read_controls(const std::filesystem::path& checkpoint);

}  // namespace fathom::diagnose::moc
