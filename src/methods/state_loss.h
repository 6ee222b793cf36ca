#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "comm/communicator.h"
#include "data/batch.h"
#include "model/parameters.h"
#include "model/readback.h"
#include "model/seams.h"

namespace fathom::methods {

enum class Side { teacher, student };

/// A hidden state of a model, counted as Hugging Face's hidden_states: 0 is the embedding, i the
/// output of block i (from 1), and the last one has passed the final norm.
struct KeyState {
  Side side = Side::student;
  std::int64_t layer = 0;
  auto operator<=>(const KeyState&) const = default;
};

/// States that a loss needs together. The term is computed on one stage, the latest of those that
/// make them, or the last one if it needs the heads; what is made earlier travels there.
struct Site {
  std::vector<KeyState> states;
  bool at_head = false;
};

/// A model's head, for sites that are at_head.
struct KeyHead {
  const autograd::Var* matrix = nullptr;  ///< [vocab on this rank, embed_dim]
  std::int64_t vocab = 0;            ///< entries that count, of this rank: both models have them
  comm::Communicator* tp = nullptr;  ///< the ranks that hold the rest; null for one
  /// From a key state to what the matrix multiplies: the output projection of models that have one.
  std::function<autograd::Var(const autograd::Var&)> project;
};

/// The key states [n, hidden] of one micro-batch on one stage, and the heads on the last one.
class KeyStates {
 public:
  KeyHead student_head, teacher_head;

  void put(KeyState key, autograd::Var state) { states_[key] = std::move(state); }
  bool has(KeyState key) const { return states_.count(key) != 0; }
  const autograd::Var& at(KeyState key) const {
    const auto found = states_.find(key);
    FATHOM_CHECK(found != states_.end(), "state ", key.layer, " of the ",
                 key.side == Side::teacher ? "teacher" : "student", " is not on this stage");
    return found->second;
  }
  const autograd::Var& student(std::int64_t layer) const { return at({Side::student, layer}); }
  const Tensor& teacher(std::int64_t layer) const { return at({Side::teacher, layer}).value; }

 private:
  std::map<KeyState, autograd::Var> states_;
};

using StateTerm = model::LossTerm;

/// A loss on hidden states of student and teacher: the seam of MTA and FDD.
class StateLoss {
 public:
  virtual ~StateLoss() = default;

  /// Known before the run; the same on every rank.
  virtual std::vector<Site> sites() const = 0;

  /// Declares the trainable parameters of the sites that this stage computes, every tensor rank the
  /// whole of them. The loss must outlive the set.
  virtual void declare(const std::vector<std::size_t>& /*sites*/, bool /*owned*/,
                       model::ParameterSet& /*parameters*/) {}

  /// Takes in a step's micro-batches and counts the denominators. Collective over the data-parallel
  /// axis.
  virtual void begin(const std::vector<data::MicroBatch>& batches) = 0;

  /// Adds a site's terms for a micro-batch. Gradients are computed here; the tape keeps only those
  /// of the states. All tensor ranks compute the same, and the student's states are replicated.
  /// What terms() tells is asked of `later`: the host does not wait here.
  virtual void apply(autograd::Tape* tape, int slot, std::size_t site, const KeyStates& states,
                     model::Readback& later) = 0;

  /// The terms since begin(), once `later` has been read, each site's on the rank that computed it;
  /// the same list everywhere.
  virtual std::vector<StateTerm> terms() const = 0;
};

}  // namespace fathom::methods
