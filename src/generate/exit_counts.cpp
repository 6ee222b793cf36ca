#include "generate/exit_counts.h"

#include <iomanip>
#include <numeric>
#include <sstream>

namespace fathom::generate {

namespace {

// Elements of a layer's matrices, and of the part that makes keys and values.
struct LayerWeights {
  explicit LayerWeights(const model::ModelSpec& spec)
      : keys_values(static_cast<double>(2 * spec.kv_heads * spec.head_dim * spec.hidden)),
        all(keys_values + static_cast<double>(spec.hidden * (2 * spec.heads * spec.head_dim +
                                                             (spec.gated ? 3 : 2) * spec.ffn))) {}
  double keys_values, all;
};

}  // namespace

ExitCounts& ExitCounts::operator+=(const ExitCounts& other) {
  const auto add = [](std::vector<std::int64_t>& to, const std::vector<std::int64_t>& from) {
    for (std::size_t j = 0; j < to.size(); ++j) to[j] += from.at(j);
  };
  add(tokens, other.tokens);
  add(runs, other.runs);
  add(copies, other.copies);
  steps += other.steps;
  return *this;
}

void ExitCounts::sum_over(comm::Communicator& group) {
  for (std::vector<std::int64_t>* counts : {&tokens, &runs, &copies})
    group.all_reduce(counts->data(), counts->size(), comm::ReduceOp::sum);
  group.all_reduce(&steps, 1, comm::ReduceOp::sum);
}

std::int64_t ExitCounts::total() const {
  return std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
}

double ExitCounts::average_depth(const model::ModelSpec& spec) const {
  const double first = static_cast<double>(spec.layers) - static_cast<double>(tokens.size()) + 1;
  double sum = 0;
  for (std::size_t j = 0; j < tokens.size(); ++j)
    sum += static_cast<double>(tokens[j]) * (first + static_cast<double>(j));
  return sum / static_cast<double>(total());
}

double ExitCounts::bound(const model::ModelSpec& spec) const {
  if (steps == 0) return 1;
  const LayerWeights layer(spec);
  const double head = static_cast<double>(spec.vocab * spec.embed_dim);
  const auto late = static_cast<double>(tokens.size()), count = static_cast<double>(steps);
  const double below = (static_cast<double>(spec.layers) - late) * layer.all;
  double read = count * (below + head);
  for (std::size_t j = 0; j < runs.size(); ++j)
    read += static_cast<double>(runs[j]) * layer.all +
            static_cast<double>(copies[j]) * layer.keys_values;
  return count * (below + head + late * layer.all) / read;
}

std::string ExitCounts::text(const model::ModelSpec& spec) const {
  if (total() == 0) return {};
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << average_depth(spec) << " of " << spec.layers
      << " layers a token; by the deepest one:" << std::setprecision(1);
  for (std::size_t j = 0; j < tokens.size(); ++j)
    out << (j > 0 ? ", " : " ") << spec.layers - static_cast<std::int64_t>(tokens.size() - j) + 1
        << " " << 100.0 * static_cast<double>(tokens[j]) / static_cast<double>(total()) << " %";
  if (steps > 0)
    out << "; by the weights read at most " << std::setprecision(3) << bound(spec)
        << " times as fast as all layers";
  return out.str();
}

}  // namespace fathom::generate
