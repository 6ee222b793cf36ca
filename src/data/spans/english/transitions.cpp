#include "data/spans/english/transitions.h"

#include "core/error.h"

namespace fathom::data::spans::english {

ParseState::ParseState(std::size_t tokens) : nodes_(tokens) {}

int ParseState::stack(std::size_t depth) const {
  return depth < stack_.size() ? stack_[stack_.size() - 1 - depth] : kNone;
}

int ParseState::buffer(std::size_t at) const {
  if (at < returned_.size()) return returned_[returned_.size() - 1 - at];
  const std::size_t token = next_ + at - returned_.size();
  return token < nodes_.size() ? static_cast<int>(token) : kNone;
}

std::array<int, ParseState::kFeatures> ParseState::features() const {
  const int b0 = buffer(0), s0 = stack(0);
  return {b0,
          buffer(1),
          s0,
          stack(1),
          stack(2),
          b0 == kNone ? kNone : node(b0).left_child,
          s0 == kNone ? kNone : node(s0).left_child,
          s0 == kNone ? kNone : node(s0).right_child};
}

std::array<bool, kMoveKinds> ParseState::valid() const {
  const int b0 = buffer(0), b1 = buffer(1);
  const bool arc = !stack_.empty() && b0 != kNone && !begins_sentence(b0);
  const bool shift = stack_.empty() || (arc && b1 != kNone && !node(b0).returned);
  const bool split = b1 != kNone && b1 == b0 + 1 && !begins_sentence(b1);
  return {shift, !stack_.empty(), arc, arc, split};
}

void ParseState::push() {
  stack_.push_back(buffer(0));
  if (returned_.empty()) {
    ++next_;
  } else {
    returned_.pop_back();
  }
}

void ParseState::reduce() {
  const int top = stack(0);
  if (node(top).head == kNone && stack_.size() > 1) {
    node(top).returned = true;
    returned_.push_back(top);
  }
  stack_.pop_back();
}

void ParseState::add_left_arc(std::uint16_t label) {
  const int head = buffer(0), child = stack(0);
  Node& node_of_child = node(child);
  if (node_of_child.head != kNone) {
    // The earlier head lies below the child on the stack, so it got no right child since.
    node(node_of_child.head).right_child = node_of_child.earlier_right;
  }
  node_of_child.head = head;
  node_of_child.label = label;
  node(head).left_child = child;
  node(head).returned = false;
  stack_.pop_back();
}

void ParseState::add_right_arc(std::uint16_t label) {
  const int head = stack(0), child = buffer(0);
  Node& node_of_child = node(child);
  node_of_child.head = head;
  node_of_child.label = label;
  node_of_child.earlier_right = node(head).right_child;
  node(head).right_child = child;
  push();
}

void ParseState::apply(MoveKind kind, std::uint16_t label) {
  switch (kind) {
    case MoveKind::shift:
      return push();
    case MoveKind::reduce:
      return reduce();
    case MoveKind::left_arc:
      return add_left_arc(label);
    case MoveKind::right_arc:
      return add_right_arc(label);
    case MoveKind::split:
      node(buffer(1)).begins_sentence = true;
      return;
  }
  fail(ErrorKind::internal, "move of kind ", static_cast<int>(kind));
}

}  // namespace fathom::data::spans::english
