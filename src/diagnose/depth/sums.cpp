#include "diagnose/depth/sums.h"

namespace fathom::diagnose::depth {

DepthSums::DepthSums(std::int64_t first_layer, std::size_t k)
    : first(first_layer), layers(k), both_correct(k * k), both_solved(k * k) {}

void DepthSums::reduce(comm::ProcessGrid& grid) {
  std::vector<double*> values = {&tokens, &examples, &entropy};
  const auto add = [&](LayerSums& sums) {
    for (double* value : {&sums.loss, &sums.divergence, &sums.correct, &sums.agrees, &sums.adds,
                          &sums.solved, &sums.weight, &sums.largest})
      values.push_back(value);
  };
  for (LayerSums& layer : layers) add(layer);
  add(mixture);
  for (auto* table : {&both_correct, &both_solved})
    for (double& value : *table) values.push_back(&value);
  std::vector<double> packed;
  for (const double* value : values) packed.push_back(*value);
  // Tensor ranks hold the same; stages before the last one hold zeros.
  for (comm::Communicator* group : {&grid.dp(), &grid.pp()})
    group->all_reduce(packed.data(), packed.size(), comm::ReduceOp::sum);
  for (std::size_t i = 0; i < values.size(); ++i) *values[i] = packed[i];
}

}  // namespace fathom::diagnose::depth
