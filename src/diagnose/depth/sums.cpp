#include "diagnose/depth/sums.h"

#include <algorithm>
#include <sstream>

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
  gather_examples(grid);
}

// As text, "record bits" a line: the ranks have unlike numbers of them.
void DepthSums::gather_examples(comm::ProcessGrid& grid) {
  std::ostringstream mine;
  for (const ExampleSolved& example : solved) mine << example.record << " " << example.by << "\n";
  std::string all;
  for (const std::string& part : grid.dp().all_gather_text(mine.str())) all += part;
  std::istringstream lines(grid.pp().broadcast_text(all, grid.pp().size() - 1));
  solved.clear();
  for (ExampleSolved example; lines >> example.record >> example.by;) solved.push_back(example);
  std::sort(solved.begin(), solved.end(),
            [](const ExampleSolved& a, const ExampleSolved& b) { return a.record < b.record; });
}

}  // namespace fathom::diagnose::depth
