#pragma once

#include <vector>

#include "comm/communicator.h"
#include "methods/moc/operations.h"

namespace fathom::methods::moc {

/// The controls of all layers at one kind of site, on every stage. Each stage owns those of its own
/// layers as parameters; the others' come once a step, and their gradients go back.
class Bank {
 public:
  /// `counts` are the layers of each stage. `pp` may be null for one stage.
  Bank(comm::Communicator* pp, std::vector<std::int64_t> counts, std::int64_t rank,
       std::int64_t hidden);

  /// This stage's parameters, [layers here * rank, hidden] and [layers here * hidden, rank]:
  /// ParameterSet::allocate() fills them in.
  autograd::Var a, b;

  /// Brings every stage's values here; must follow every change of them. Collective over the
  /// stages.
  void gather();

  /// Adds what all stages have for this stage's layers to its parameters' gradients, and starts
  /// anew. Collective over the stages.
  void return_gradients();

  /// For operations: valid once gather() has run.
  const Experts& experts() const { return experts_; }

  /// Bytes of other stages' values and gradients that have come here so far.
  std::int64_t bytes_received() const { return bytes_received_; }

 private:
  bool alone() const { return pp_ == nullptr; }
  void gather(const Tensor& own, const Tensor& all);
  void return_gradients(const autograd::Var& own, const Tensor& all);
  void make(Device& device);

  comm::Communicator* pp_;
  std::int64_t most_ = 0;  ///< layers of the largest stage: each takes so much room
  std::int64_t rank_, hidden_;
  std::int64_t layers_here_ = 0;
  bool trained_ = false;
  std::int64_t bytes_received_ = 0;
  Experts experts_;
};

/// Bytes that a rank receives in one gather(), and again in one return_gradients(), for so many
/// layers on the largest of `stages` stages.
std::int64_t exchange_bytes(std::int64_t stages, std::int64_t most_layers, std::int64_t rank,
                            std::int64_t hidden);

}  // namespace fathom::methods::moc
