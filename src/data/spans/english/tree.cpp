#include "data/spans/english/tree.h"

#include <algorithm>
#include <numeric>

namespace fathom::data::spans::english {
namespace {

/// Makes a head's edges reach as far as its child's.
void widen(Tree& tree, std::uint32_t child) {
  const std::uint32_t head = tree.head[child];
  tree.left_edge[head] = std::min(tree.left_edge[head], tree.left_edge[child]);
  tree.right_edge[head] = std::max(tree.right_edge[head], tree.right_edge[child]);
}

/// Where sentences begin: at the left edges of roots.
std::vector<bool> root_edges(const Tree& tree) {
  std::vector<bool> starts(tree.size());
  for (std::size_t i = 0; i < tree.size(); ++i)
    if (tree.head[i] == i) starts[tree.left_edge[i]] = true;
  return starts;
}

/// Whether every token's head lies in its own sentence. As in spaCy, the last token is not looked
/// at, and a head may be the next sentence's first token.
bool heads_within_sentences(const Tree& tree, const std::vector<bool>& starts) {
  std::uint32_t begin = 0;
  for (std::uint32_t i = 0; i < tree.size(); ++i) {
    if (!(i > 0 && starts[i]) && i + 1 != tree.size()) continue;
    for (std::uint32_t t = begin; t < i; ++t)
      if (tree.head[t] < begin || tree.head[t] > i) return false;
    begin = i;
  }
  return true;
}

/// Edges and sentence starts from heads. Arcs that cross need several passes; spaCy stops after
/// twelve, or as soon as all heads are within their sentences, and so must this.
void set_edges(Tree& tree) {
  constexpr int kPasses = 12;
  const auto n = static_cast<std::uint32_t>(tree.size());
  tree.left_edge.resize(n);
  std::iota(tree.left_edge.begin(), tree.left_edge.end(), 0u);
  tree.right_edge = tree.left_edge;
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::uint32_t i = 0; i < n; ++i) widen(tree, i);
    for (std::uint32_t i = n; i-- > 0;) widen(tree, i);
    tree.sentence_start = root_edges(tree);
    if (heads_within_sentences(tree, tree.sentence_start)) break;
  }
}

/// Children of a token in order. Only those between its edges: arcs lowered since the edges were
/// set may lie beyond.
template <typename Body>
void for_each_child(const Tree& tree, std::uint32_t token, const Body& body) {
  for (std::uint32_t i = tree.left_edge[token]; i <= tree.right_edge[token]; ++i)
    if (i != token && tree.head[i] == token) body(i);
}

/// The first token labelled `label` below the head of `token`, breadth first; that head if there is
/// none.
std::uint32_t lowered_head(const Tree& tree, std::uint32_t token, std::uint16_t label,
                           const std::vector<bool>& is_space) {
  std::vector<std::uint32_t> queue = {tree.head[token]};
  while (!queue.empty()) {
    std::vector<std::uint32_t> next;
    for (const std::uint32_t parent : queue) {
      const std::size_t first = next.size();
      for_each_child(tree, parent, [&](std::uint32_t child) {
        if (child != token && !is_space[child]) next.push_back(child);
      });
      for (std::size_t i = first; i < next.size(); ++i)
        if (tree.label[next[i]] == label) return next[i];
    }
    queue = std::move(next);
  }
  return tree.head[token];
}

}  // namespace

Tree make_tree(const Arcs& arcs, const Labels& labels, const std::vector<bool>& is_space) {
  Tree tree;
  tree.label = arcs.label;
  tree.head.resize(arcs.head.size());
  const std::uint16_t root = labels.find("ROOT");
  for (std::uint32_t i = 0; i < tree.size(); ++i) {
    const bool has_head = arcs.head[i] != ParseState::kNone;
    tree.head[i] = has_head ? static_cast<std::uint32_t>(arcs.head[i]) : i;
    if (!has_head) tree.label[i] = root;
  }
  set_edges(tree);
  bool lowered = false;
  for (std::uint32_t i = 0; i < tree.size(); ++i) {
    const std::uint16_t label = tree.label[i];
    if (!labels.lifted(label)) continue;
    tree.head[i] = lowered_head(tree, i, labels.head(label), is_space);
    tree.label[i] = labels.base(label);
    lowered = true;
  }
  if (lowered) set_edges(tree);
  return tree;
}

}  // namespace fathom::data::spans::english
