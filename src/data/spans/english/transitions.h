#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace fathom::data::spans::english {

/// What a transition of the arc-eager parser does; a model's moves come in this order.
enum class MoveKind : std::uint8_t {
  shift,      ///< push the buffer's first token
  reduce,     ///< pop the stack; a token without a head goes back to the buffer
  left_arc,   ///< the buffer's first token becomes the head of the stack's top, which is popped
  right_arc,  ///< the stack's top becomes the head of the buffer's first token, which is pushed
  split,      ///< the buffer's second token begins a sentence
};
constexpr std::size_t kMoveKinds = 5;

/// The state of one text's parse: a stack, a buffer, and the arcs made so far.
class ParseState {
 public:
  static constexpr int kNone = -1;
  static constexpr std::size_t kFeatures = 8;

  explicit ParseState(std::size_t tokens);

  bool is_final() const { return stack_.empty() && buffer_size() == 0; }

  /// Tokens (or kNone) that the network looks at: the buffer's first two, the stack's top three,
  /// the last left child of the buffer's first, the last left and right child of the stack's top.
  std::array<int, kFeatures> features() const;

  /// Which kinds of moves may be made. In a state that is not final there is always one.
  std::array<bool, kMoveKinds> valid() const;

  /// Makes a valid move; `label` is that of the arc, if it makes one.
  void apply(MoveKind kind, std::uint16_t label);

  int head(std::size_t token) const { return nodes_[token].head; }
  std::uint16_t label(std::size_t token) const { return nodes_[token].label; }

 private:
  struct Node {
    int head = kNone;
    int left_child = kNone;     // attached last
    int right_child = kNone;    // attached last
    int earlier_right = kNone;  // the right child that this token's head got before it
    std::uint16_t label = 0;
    bool returned = false;  // went back to the buffer, and may not be shifted again
    bool begins_sentence = false;
  };

  int stack(std::size_t depth) const;
  int buffer(std::size_t at) const;
  std::size_t buffer_size() const { return nodes_.size() - next_ + returned_.size(); }
  bool begins_sentence(int token) const { return token != kNone && node(token).begins_sentence; }
  Node& node(int token) { return nodes_[static_cast<std::size_t>(token)]; }
  const Node& node(int token) const { return nodes_[static_cast<std::size_t>(token)]; }
  void push();
  void reduce();
  void add_left_arc(std::uint16_t label);
  void add_right_arc(std::uint16_t label);

  std::vector<Node> nodes_;
  std::vector<int> stack_;
  std::vector<int> returned_;  // the front of the buffer, its first token last
  std::size_t next_ = 0;       // the rest of the buffer begins here
};

}  // namespace fathom::data::spans::english
