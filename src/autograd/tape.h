#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace fathom::autograd {

/// Where the gradient of a value collects. A parameter's slot owns a buffer for the whole run and
/// is always added to; an intermediate value's slot is empty until its first consumer's backward
/// step.
class GradSlot {
 public:
  GradSlot() = default;
  /// A slot that adds into `buffer`, which is never released.
  explicit GradSlot(Tensor buffer) : grad_(std::move(buffer)), persistent_(true) {}

  const Tensor& grad() const { return grad_; }
  bool persistent() const { return persistent_; }

  /// Adds a gradient. The tensor may be kept without a copy: do not write to it afterwards.
  void add(Tensor gradient);

  /// A tensor of this shape to write to, and whether it must be added to (true) or overwritten: for
  /// kernels that can do either. An existing gradient that other handles share is copied first.
  struct Target {
    Tensor tensor;
    bool accumulate;
  };
  Target target(Device& device, Shape shape);

  /// The same for kernels that only add: a new gradient starts from zero.
  Tensor sum_target(Device& device, Shape shape);

  /// The gradient, which leaves the slot. Undefined if nothing reached it.
  Tensor take();

 private:
  Tensor grad_;
  bool persistent_ = false;
};

/// Makes a value again, bit for bit, from what the tape keeps anyway.
using Remake = std::function<Tensor()>;

/// Parts of backward steps that no other step needs the results of: gradients of parameters.
using LaterWork = std::vector<std::function<void()>>;

/// A value in a computation: a tensor, and a gradient slot if something before it is trained. It
/// does not keep the tape's memory alive: an operation saves what its backward step needs and no
/// more.
struct Var {
  Tensor value;
  std::shared_ptr<GradSlot> slot;
  Remake remake;  ///< empty unless an operation that needs the value later should make it again
  /// Where an operation may leave such a part of its step; whoever made the value runs it while the
  /// value's gradient is under way to other ranks. Null: every step does all of its work.
  std::shared_ptr<LaterWork> later;

  Var() = default;
  explicit Var(Tensor v) : value(std::move(v)) {}
  Var(Tensor v, std::shared_ptr<GradSlot> s) : value(std::move(v)), slot(std::move(s)) {}
  bool needs_grad() const { return slot != nullptr; }
  bool defined() const { return value.defined(); }
};

/// Bytes that the steps recorded under one name keep for the backward pass. A tensor that several
/// steps keep counts once, for the first.
using SavedBytes = std::map<std::string, std::size_t>;

/// The backward steps of one forward pass, in order. A null tape means inference: nothing is saved.
class Tape {
 public:
  /// Appends a step. `saved` are the tensors that the step holds, for accounting.
  void record(const char* operation, const std::vector<Tensor>& saved, std::function<void()> step);

  /// Runs all steps, last first, releasing what each one holds as soon as it has run. The caller
  /// has put the gradient of the outputs into their slots.
  void backward();

  /// Runs `hook` when everything recorded after this point has been played back.
  void on_backward(std::function<void()> hook) { record("hook", {}, std::move(hook)); }

  /// Whether cheap element-wise results (norms, activations) are made again in the backward pass
  /// instead of being kept for it. Set before anything is recorded; off at first.
  void set_remakes(bool remakes) { remakes_ = remakes; }
  bool remakes() const { return remakes_; }

  bool empty() const { return steps_.empty(); }
  const SavedBytes& saved_bytes() const { return saved_bytes_; }

 private:
  std::vector<std::function<void()>> steps_;
  SavedBytes saved_bytes_;
  std::map<const void*, bool> counted_;
  bool remakes_ = false;
};

/// A slot for an operation's result: empty if the tape is null or no input needs a gradient.
std::shared_ptr<GradSlot> result_slot(const Tape* tape, std::initializer_list<const Var*> inputs);

/// Calls f(tape, inputs) without keeping what it saves; the backward pass calls it again and plays
/// that back. f must compute the same values again (random numbers here are counter-based). With a
/// null tape it is a plain call.
using Recomputable = std::function<Var(Tape*, const Var&)>;
Var recompute(Tape* tape, const Var& input, const Recomputable& f);

}  // namespace fathom::autograd
