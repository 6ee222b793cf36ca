#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/process_grid.h"

namespace fathom::diagnose::depth {

/// What one late layer says, summed over supervised tokens.
struct LayerSums {
  double loss = 0;        ///< cross-entropy of its own logits, nats
  double divergence = 0;  ///< KL(last layer || it), nats
  double correct = 0;     ///< tokens whose label it puts first
  double agrees = 0;      ///< tokens where it puts first what the last layer puts first
  double adds = 0;        ///< correct where no later layer is
  double solved = 0;      ///< examples all of whose supervised tokens it puts first
  double weight = 0;      ///< of the router
  double largest = 0;     ///< tokens where that weight is the largest, the earliest of equals
};

/// Which layers put first every supervised token of an example.
struct ExampleSolved {
  std::int64_t record = 0;  ///< of the token file
  std::string by;           ///< [k + 1] '0' or '1': each late layer, lowest first, and the mixture

  bool operator==(const ExampleSolved&) const = default;
};

/// What k late layers say, lowest first, and their mixture. Sums of one rank until reduced.
struct DepthSums {
  explicit DepthSums(std::int64_t first_layer, std::size_t k);

  std::int64_t first;  ///< number of the lowest layer, counted from 1
  std::vector<LayerSums> layers;
  LayerSums mixture;  ///< divergence and agreement likewise; no weight
  double tokens = 0, examples = 0;
  double entropy = 0;                 ///< of the router's weights, nats
  std::vector<double> both_correct;   ///< [k, k] tokens that both put right
  std::vector<double> both_solved;    ///< [k, k] examples that both solve
  std::vector<ExampleSolved> solved;  ///< every example; by record once reduced

  std::size_t k() const { return layers.size(); }

  /// Sums over data-parallel ranks, and their examples together, handed from the last stage to all.
  /// Collective over the grid.
  void reduce(comm::ProcessGrid& grid);

 private:
  void gather_examples(comm::ProcessGrid& grid);
};

}  // namespace fathom::diagnose::depth
