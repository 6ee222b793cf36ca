#include "pipeline/best_split.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "core/error.h"

namespace fathom::pipeline {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// What the first stages cost, and where the last of them begins.
struct Prefix {
  bool possible = false;
  int penalty = 0;
  double costliest = 0, squares = 0;
  int begin = 0, other_begin = 0;
};

class Splitter {
 public:
  using CostOf = std::function<double(const StageLayers&)>;
  using PenaltyOf = std::function<int(const StageLayers&)>;
  using Better = bool (*)(const Prefix&, const Prefix&);

  Splitter(int layers, int other_layers, int stages, const CostOf& cost, const PenaltyOf& penalty)
      : layers_(layers),
        others_(other_layers),
        stages_(stages),
        cost_(cost),
        penalty_(penalty),
        cells_(static_cast<std::size_t>((stages + 1) * (layers + 1) * (other_layers + 1))) {}

  /// The best way to cover all layers, no stage costing more than `limit`.
  const Prefix& solve(double limit, Better better) {
    std::fill(cells_.begin(), cells_.end(), Prefix{});
    cell(0, 0, 0).possible = true;
    for (int s = 0; s < stages_; ++s)
      for (int begin = s; begin < layers_; ++begin)
        for (int other = s; other < others_; ++other)
          if (cell(s, begin, other).possible)
            extend({s, begin, begin, other, other}, limit, better);
    return cell(stages_, layers_, others_);
  }

  Split lengths() {
    Split split;
    int end = layers_, other_end = others_;
    for (int s = stages_; s > 0; --s) {
      const Prefix& last = cell(s, end, other_end);
      split.lengths.insert(split.lengths.begin(), end - last.begin);
      split.other_lengths.insert(split.other_lengths.begin(), other_end - last.other_begin);
      end = last.begin;
      other_end = last.other_begin;
    }
    return split;
  }

 private:
  Prefix& cell(int stages, int end, int other_end) {
    return cells_[static_cast<std::size_t>((stages * (layers_ + 1) + end) * (others_ + 1) +
                                           other_end)];
  }

  /// Tries all that the stage can have if it begins there.
  void extend(StageLayers at, double limit, Better better) {
    const Prefix before = cell(at.stage, at.begin, at.other_begin);
    for (at.end = at.begin + 1; at.end <= layers_; ++at.end)
      for (at.other_end = at.other_begin + 1; at.other_end <= others_; ++at.other_end) {
        const double cost = cost_(at);
        if (cost > limit) break;
        const Prefix after{true,
                           before.penalty + penalty_(at),
                           std::max(before.costliest, cost),
                           before.squares + cost * cost,
                           at.begin,
                           at.other_begin};
        Prefix& known = cell(at.stage + 1, at.end, at.other_end);
        if (!known.possible || better(after, known)) known = after;
      }
  }

  int layers_, others_, stages_;
  const CostOf& cost_;
  const PenaltyOf& penalty_;
  std::vector<Prefix> cells_;  // by number of stages and the layers that they cover
};

}  // namespace

Split best_split(int layers, int other_layers, int stages,
                 const std::function<double(const StageLayers&)>& cost,
                 const std::function<int(const StageLayers&)>& penalty) {
  FATHOM_CHECK(stages >= 1 && stages <= layers && stages <= other_layers, layers, " and ",
               other_layers, " layers on ", stages, " stages");
  Splitter splitter(layers, other_layers, stages, cost, penalty);
  // A prefix that is best by penalty and costliest stage stays best whatever follows; by squares
  // only once no stage may cost more than the costliest has to.
  const double limit =
      splitter
          .solve(kNoLimit,
                 [](const Prefix& a, const Prefix& b) {
                   return std::tie(a.penalty, a.costliest) < std::tie(b.penalty, b.costliest);
                 })
          .costliest;
  splitter.solve(limit, [](const Prefix& a, const Prefix& b) {
    return std::tie(a.penalty, a.squares) < std::tie(b.penalty, b.squares);
  });
  return splitter.lengths();
}

}  // namespace fathom::pipeline
