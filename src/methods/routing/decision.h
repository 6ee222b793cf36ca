#pragma once

#include <vector>

#include "autograd/operations.h"
#include "methods/routing/rule.h"

// What a router does on the host: from sums over a group's tokens to the experts that it takes.

namespace fathom::methods::routing {

/// The rows of a micro-batch that share a decision, and which of them count for it.
struct Groups {
  std::vector<std::int32_t> starts;  ///< [groups + 1] rows
  std::vector<double> counted;       ///< [groups] rows that count
  Tensor device_starts;              ///< i32 [groups + 1]
  Tensor group_of_row;               ///< i32 [rows]
  Tensor counted_rows;               ///< i32 [rows], 1 or 0

  std::int64_t size() const { return static_cast<std::int64_t>(counted.size()); }
  std::int64_t rows() const { return starts.back(); }
  double tokens() const;
};

/// The groups of this rank's rows: with Scope::global all of them are one. Throws nothing; a
/// micro-batch has at least one sequence and each prompt a token.
Groups make_groups(Device& device, const autograd::TokenRows& rows, Scope scope, Tokens tokens);

/// What one group does: the experts, best first, their weights, and the softmax of its mean scores.
struct Choice {
  std::vector<int> experts;
  std::vector<float> weights;
  std::vector<double> softmax;
};

/// The sums of a group's counted tokens, [experts] each.
struct GroupSums {
  const double* scores;
  const double* probs;
  const double* picks;
  double tokens;
};

/// The decision of a group: ties go to the lower index. NaN counts as the lowest score: the loss is
/// then NaN as well, which the run reports.
Choice choose(const Rule& rule, int experts, const GroupSums& sums);

/// The gradient of the mean scores, [experts], given that of the weights.
std::vector<double> score_gradient(SoftmaxOrder order, const Choice& choice,
                                   const std::vector<double>& dweights);

}  // namespace fathom::methods::routing
