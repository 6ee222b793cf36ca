#include "pipeline/best_split.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace fathom::pipeline {
namespace {

/// A dense table with int indices.
template <typename T>
class Table {
 public:
  Table(int rows, int columns, const T& value)
      : columns_(columns), cells_(static_cast<std::size_t>(rows * columns), value) {}
  T& operator()(int row, int column) {
    return cells_[static_cast<std::size_t>(row * columns_ + column)];
  }
  const std::vector<T>& cells() const { return cells_; }

 private:
  int columns_;
  std::vector<T> cells_;
};

/// Lexicographic and additive: the penalty first, then the sum of squared costs.
struct Score {
  int penalty = 0;
  double squares = 0;

  bool possible() const { return penalty != std::numeric_limits<int>::max(); }
  bool operator<(const Score& other) const {
    return penalty != other.penalty ? penalty < other.penalty : squares < other.squares;
  }
};

constexpr Score kImpossible{std::numeric_limits<int>::max(), 0};

using CostOf = std::function<double(int, int, int)>;
using PenaltyOf = std::function<int(int, int, int)>;

class Splitter {
 public:
  Splitter(int layers, int stages, const CostOf& cost, const PenaltyOf& penalty)
      : layers_(layers),
        stages_(stages),
        costs_(static_cast<std::size_t>(stages), Table<double>(layers, layers + 1, 0)),
        penalties_(static_cast<std::size_t>(stages), Table<int>(layers, layers + 1, 0)) {
    for (int s = 0; s < stages; ++s)
      for (int begin = 0; begin < layers; ++begin)
        for (int end = begin + 1; end <= layers; ++end) {
          costs_[static_cast<std::size_t>(s)](begin, end) = cost(s, begin, end);
          penalties_[static_cast<std::size_t>(s)](begin, end) = penalty(s, begin, end);
        }
  }

  /// The best split with every range at most `limit`; its lengths are kept.
  Score solve(double limit) {
    // best(s, end): the first s ranges cover [0, end); from(s, end): where the last of them begins.
    Table<Score> best(stages_ + 1, layers_ + 1, kImpossible);
    Table<int> from(stages_ + 1, layers_ + 1, -1);
    best(0, 0) = Score{};
    for (int s = 0; s < stages_; ++s)
      for (int begin = s; begin < layers_; ++begin)
        if (best(s, begin).possible()) extend(s, begin, limit, best, from);
    const Score result = best(stages_, layers_);
    if (result.possible()) read_lengths(from);
    return result;
  }

  /// The least limit that still allows `penalty`: a binary search over the costs that occur.
  double least_limit(int penalty) {
    std::vector<double> candidates;
    for (const auto& table : costs_)
      candidates.insert(candidates.end(), table.cells().begin(), table.cells().end());
    std::sort(candidates.begin(), candidates.end());
    return *std::partition_point(candidates.begin(), candidates.end(),
                                 [&](double limit) { return solve(limit).penalty > penalty; });
  }

  const std::vector<int>& lengths() const { return lengths_; }

 private:
  /// Tries every range of stage s that begins here.
  void extend(int s, int begin, double limit, Table<Score>& best, Table<int>& from) {
    const Score so_far = best(s, begin);
    for (int end = begin + 1; end <= layers_; ++end) {
      const double cost = costs_[static_cast<std::size_t>(s)](begin, end);
      if (cost > limit) return;
      const int penalty = penalties_[static_cast<std::size_t>(s)](begin, end);
      const Score score{so_far.penalty + penalty, so_far.squares + cost * cost};
      if (!(score < best(s + 1, end))) continue;
      best(s + 1, end) = score;
      from(s + 1, end) = begin;
    }
  }

  void read_lengths(Table<int>& from) {
    lengths_.assign(static_cast<std::size_t>(stages_), 0);
    int end = layers_;
    for (int s = stages_; s > 0; --s) {
      const int begin = from(s, end);
      lengths_[static_cast<std::size_t>(s - 1)] = end - begin;
      end = begin;
    }
  }

  int layers_;
  int stages_;
  std::vector<Table<double>> costs_;  ///< by stage, of (begin, end)
  std::vector<Table<int>> penalties_;
  std::vector<int> lengths_;
};

}  // namespace

std::vector<int> best_split(int layers, int stages, const CostOf& cost, const PenaltyOf& penalty) {
  FATHOM_CHECK(stages >= 1 && stages <= layers, layers, " layers on ", stages, " stages");
  Splitter splitter(layers, stages, cost, penalty);
  const int least_penalty = splitter.solve(std::numeric_limits<double>::infinity()).penalty;
  splitter.solve(splitter.least_limit(least_penalty));
  return splitter.lengths();
}

}  // namespace fathom::pipeline
