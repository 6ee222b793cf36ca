#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/spans/english/labels.h"
#include "data/spans/english/network.h"
#include "data/spans/english/transitions.h"

namespace fathom::data::spans::english {

/// An arc to each token of a text; a token without a head has ParseState::kNone.
struct Arcs {
  std::vector<int> head;
  std::vector<std::uint16_t> label;
};

/// spaCy's greedy transition-based parser: at each state the best valid move by
/// scores = W maxout(sum over the state's 8 tokens of V_f x + b) + c, the first of equals.
class Parser {
 public:
  /// Adds the moves' labels to `labels`.
  Parser(const ModelFile& model, Labels& labels);

  /// Arcs of every text of a batch. The texts' parses advance side by side, so that their states
  /// are scored together. `tokens` are the texts' lengths.
  std::vector<Arcs> run(const TokenVectors& vectors, std::span<const std::size_t> tokens) const;

 private:
  static constexpr std::int64_t kHidden = 64, kPieces = 2;
  static constexpr std::int64_t kUnits = kHidden * kPieces;  // of one feature
  static constexpr std::int64_t kParts = ParseState::kFeatures * kUnits;

  struct Move {
    MoveKind kind;
    std::uint16_t label;
  };
  struct Range {
    std::size_t begin = 0, end = 0;
  };

  void add_move(const std::string& name, Labels& labels);
  /// For every row of a batch what each of the 8 features would add to the hidden units.
  std::vector<float> feature_parts(const TokenVectors& vectors) const;
  void hidden_units(const ParseState& state, const float* parts, float* out) const;
  const Move& best_move(const ParseState& state, const float* scores) const;

  std::vector<Move> moves_;
  std::array<Range, kMoveKinds> kinds_;  // of moves_
  kernels::PackedLinear lower_, features_, upper_;
  std::vector<float> pad_, bias_;
};

}  // namespace fathom::data::spans::english
