#pragma once

#include <cstdint>
#include <vector>

#include "data/spans/english/labels.h"
#include "data/spans/english/parser.h"

namespace fathom::data::spans::english {

/// The dependency tree of one text. A root is its own head.
struct Tree {
  std::vector<std::uint32_t> head;
  std::vector<std::uint16_t> label;
  /// First and last token of what each token governs.
  std::vector<std::uint32_t> left_edge, right_edge;
  std::vector<bool> sentence_start;

  std::size_t size() const { return head.size(); }
};

/// The tree of a parse: tokens without a head become roots labelled `root`, and each arc "x||y" is
/// lowered to the first token labelled y below its head, nearest first, left to right (HEAD scheme
/// of Nivre and Nilsson 2005). `is_space` marks tokens that cannot be such a head.
Tree make_tree(const Arcs& arcs, const Labels& labels, const std::vector<bool>& is_space);

}  // namespace fathom::data::spans::english
