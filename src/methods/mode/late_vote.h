#pragma once

#include <functional>
#include <vector>

#include "methods/mode/mode_spec.h"
#include "methods/state_loss.h"
#include "model/stage.h"

namespace fathom::methods::mode {

/// Whether a model's layers have states that a head can read: norms stand in front of them.
bool has_late_states(const model::ModelSpec& model);

/// Throws Error(config) naming the key of [mode] that does not fit the model.
void check(const ModeSpec& spec, const model::ModelSpec& model);

/// Parameters of late layers that vote.
struct ModeSize {
  std::int64_t added = 0;    ///< that the model does not have: norms, router
  std::int64_t trained = 0;  ///< the model's final norm among them
};
ModeSize size_of(const ModeSpec& spec, const model::ModelSpec& model);

/// How what late layers of several stages say comes to the one head.
enum class Transport {
  states,   ///< late states travel to the last stage, where all norms and the router are
  mixture,  ///< the sum of G_i N_i(H_i) so far travels, and G with it; norms and router are where
            ///< the states are that they read. Of losses that need no single layer's logits.
};

/// What one stage has of a vote.
struct VotePart {
  std::int64_t first = 0, end = 0;  ///< late layers whose norms it has, [first, end) counted from 1
  bool router = false;
};
/// The parameters of a part; the final norm is the last stage's.
ModeSize size_of(const ModeSpec& spec, const model::ModelSpec& model, const VotePart& part);

/// Whether a parameter is the final norm, which the last layer's expert is.
bool is_last_norm(const std::string& name, const model::ModelSpec& model);

/// What each late layer hands to the head for some rows, lowest layer first, and its weight.
struct Votes {
  std::vector<autograd::Var> experts;  ///< k of [m, embed_dim]
  autograd::Var weights;               ///< G [m, k]; a row sums to 1
};

/// The same, where only its sum is wanted, up to some layer.
struct RunningVote {
  autograd::Var sum;      ///< of G_i N_i(H_i) [m, hidden]; undefined before the first late layer
  autograd::Var weights;  ///< G [m, k]; undefined where nobody has found them yet
};

/// Values of a norm of the model.
struct NormValues {
  std::vector<float> weight, bias;  ///< [hidden]; no bias where the model's norms have none
};

/// W [k, hidden] and b [k] of the weights G = softmax(W x + b).
struct RouterWeights {
  autograd::Var weight, bias;
};

/// G [m, k] of rows x [m, hidden] of the state before the late layers: the softmax over the `kept`
/// largest scores, 0 elsewhere. `norm_eps` is the model's.
autograd::Var route(autograd::Tape* tape, const ModeSpec& spec, float norm_eps,
                    const RouterWeights& router, const autograd::Var& x, std::int64_t kept);

/// MoDE (Luo and Specia, 2024): with H_i the residual stream behind layer i of n, phi the head and
/// N_i a norm, the next token's logits are sum over i > n - k of G_i phi(N_i(H_i)), and
/// G = softmax(W H_{n-k} + b). As phi is linear and the weights sum to 1, they are also
/// phi(sum of G_i N_i(H_i)): the mixture is made of states, and the head runs once.
///
/// Its parameters are "method.mode.norm.<i>.weight|bias" for i < n, layers counted from 1, and
/// "method.mode.router.weight|bias", whole on each tensor rank; N_n is the model's final norm. They
/// live on the last stage, or spread over stages where a running sum travels (Transport).
class LateVote {
 public:
  /// The spec must fit the model (check()).
  LateVote(const ModeSpec& spec, const model::ModelSpec& model);
  LateVote(const LateVote&) = delete;
  LateVote& operator=(const LateVote&) = delete;

  /// The states H_i, i < n, that the last stage needs.
  Site site() const;
  /// Those that a stage needs for its part of a running sum.
  Site site(const VotePart& part) const;
  /// What a stage of the layers [first, end), counted from 1, has of a vote whose running sum
  /// travels.
  VotePart part_of(std::int64_t first, std::int64_t end) const;
  const ModeSpec& spec() const { return spec_; }
  /// The layer whose state is routed, n - k: late layers are those above it.
  std::int64_t gate_layer() const { return layers_ - spec_.k; }
  /// Of the layers that vote. On the stage that has a learnt router.
  const RouterWeights& router() const { return spec_.k < declared_k_ ? router_ : declared_router_; }

  /// Declares the parameters of a stage's part; the vote must outlive the set.
  void declare(bool owned, model::ParameterSet& parameters, const VotePart& part);

  /// Sets what was declared, for a new run: norms as the final norm, the router as asked.
  void initialise(const NormValues& final_norm, RouterInit router = RouterInit::last);

  /// Leaves only the last k layers with a vote, 2 <= k <= the number declared: what the others had
  /// is left out of the set, and the router reads the state before the layers that remain. `last`
  /// is null on stages but the last.
  void keep_last(int k, model::ParameterSet* last);

  /// The votes of some rows from `state(i)` = H_i [m, hidden], layers counted from 1 and
  /// H_0 the embedding, and the last layer's normed state. Last stage only; collective over the
  /// tensor group.
  Votes votes(const model::Stage& last, const model::Pass& pass,
              const std::function<autograd::Var(std::int64_t)>& state,
              const autograd::Var& last_normed) const;

  /// Adds what was declared here to a running sum, the last layer excepted. `state` as of votes(),
  /// for the states of site(part).
  RunningVote add(const model::Stage& stage, const model::Pass& pass,
                  const std::function<autograd::Var(std::int64_t)>& state,
                  RunningVote so_far) const;
  /// The whole sum, with the last layer's normed state, as the head multiplies it [m, embed_dim].
  /// Last stage only; collective over the tensor group.
  autograd::Var complete(const model::Stage& last, const model::Pass& pass,
                         const RunningVote& others, const autograd::Var& last_normed) const;

  /// What late layer i hands to the head for rows of H_i [m, hidden]: [m, embed_dim]. Last stage
  /// only; collective over the tensor group.
  autograd::Var expert(const model::Stage& last, const model::Pass& pass, std::int64_t layer,
                       const autograd::Var& state) const;

 private:
  autograd::Var normed(const model::Stage& stage, const model::Pass& pass, std::int64_t layer,
                       const autograd::Var& state) const;
  autograd::Var equal_weights(Device& device, std::int64_t rows) const;

  ModeSpec spec_;
  int declared_k_;
  std::int64_t layers_, hidden_;
  VotePart part_;                          // what was declared here
  bool biased_;                            // norms of the model have a bias
  std::vector<model::NormWeights> norms_;  // of the layers declared, the last one's excepted
  RouterWeights declared_router_;          // of the layers declared
  RouterWeights router_;                   // of those that vote, the last rows of the same memory
};

/// sum of G_i times expert i.
autograd::Var mix(autograd::Tape* tape, const Votes& votes);

}  // namespace fathom::methods::mode
