#pragma once

#include <memory>
#include <vector>

#include "autograd/operations.h"
#include "comm/communicator.h"
#include "model/family.h"
#include "model/parameters.h"
#include "model/seams.h"
#include "model/shard.h"

namespace fathom::model {

/// Which part of a model a rank holds.
struct StagePlan {
  std::int64_t first_layer = 0, end_layer = 0;
  bool has_embedding = true;  ///< first stage
  bool has_head = true;       ///< last stage
  Shard shard;
};

/// Dropout of one model in one optimizer step. Masks depend on (seed, step, sample, layer, site,
/// element) and on nothing else.
struct DropoutPlan {
  float embedding = 0, residual = 0, attention = 0;
  std::uint32_t seed = 0, step = 0;
};

struct Block;

/// What runs through a stage: the micro-batch, the tape (null for inference), dropout, and whether
/// blocks are recomputed in the backward pass.
struct Pass {
  autograd::Tape* tape = nullptr;
  std::shared_ptr<const autograd::TokenRows> rows;
  DropoutPlan dropout;
  bool recompute = false;
  /// Called with (layer, its output) after each block, layer 0 being the embedding; may be empty.
  std::function<void(std::int64_t, const autograd::Var&)> tap;
  /// Called in the backward pass when the gradients of a bucket of Stage::parameters() have got all
  /// that this pass adds; may be empty.
  std::function<void(int)> bucket_done;
  /// A block's attention in place of the causal one over the micro-batch: decoding attends to a
  /// cache. Takes the block and its fused projection [n, (heads + 2 kv_heads) head_dim] before
  /// rotation; returns [n, heads * head_dim]. Without a tape only; may be empty.
  std::function<Tensor(const Block&, const Tensor&)> attend;
  /// With `attend`: the cache slot of each sequence, those of prompts first and then the running
  /// ones, one row each.
  std::vector<std::int32_t> slots;
  /// With `attend`: the pass of some of the sequences (by number) through a block that runs beside
  /// block `layer`, in the cache that is set aside for this. A sequence must always take one block.
  std::function<Pass(const std::vector<std::int64_t>& sequences, std::int64_t layer)> aside;
  /// Of the stage's extension: from its begin_pass() or begin_decoding().
  std::shared_ptr<PassState> state;
};

struct LinearWeights {
  autograd::Var weight, bias;
  std::unique_ptr<LinearAdapter> adapter;
};
struct NormWeights {
  autograd::Var weight, bias;
};

/// One transformer block on one tensor rank.
struct Block {
  std::int64_t layer = 0;
  NormWeights attention_norm, mlp_norm;
  LinearWeights qkv, attention_out, mlp_in, mlp_out;
  std::unique_ptr<ResidualControl> attention_control, mlp_control;
  std::unique_ptr<ResidualControl> control;  ///< of the whole block
  std::unique_ptr<StateEdit> edit;
  kernels::AttentionShape attention;
  int bucket = 0;
};

/// The layers [first_layer, end_layer) of a decoder on one tensor rank, with the embedding in front
/// on the first stage and the final norm and head behind on the last. All calls but the constructor
/// are collective over the tensor group.
class Stage {
 public:
  /// Allocates the parameters (their values are not set). tp may be null for one rank; it must
  /// outlive the stage. `declare_more` may add a method's own parameters to the set; their
  /// gradients are final when the whole backward pass is. `extension` attaches a method at the
  /// seams; null for the plain model.
  Stage(Device& device, const ModelSpec& spec, const StagePlan& plan, comm::Communicator* tp,
        const std::function<bool(const std::string&)>& trainable, DType frozen_dtype,
        const std::function<void(ParameterSet&)>& declare_more = {},
        StageExtension* extension = nullptr);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Hidden states [n, hidden] of the tokens, before the first block. First stage only.
  autograd::Var embed(const Pass& pass) const;

  /// Runs this stage's blocks on x [n, hidden].
  autograd::Var run_blocks(const Pass& pass, const autograd::Var& x) const;
  /// Runs those of the layers [first, end).
  autograd::Var run_blocks(const Pass& pass, const autograd::Var& x, std::int64_t first,
                           std::int64_t end) const;

  /// Keys and values, side by side, that a block with its norm in front makes of x [n, hidden]:
  /// [n, 2 kv_heads head_dim], before rotation; the queries are not computed where nothing needs
  /// them. Without a tape only.
  Tensor keys_values(const Pass& pass, std::int64_t layer, const Tensor& x) const;

  /// One of this stage's blocks on x [n, hidden], without what controls it as a whole.
  autograd::Var run_block(std::int64_t layer, const Pass& pass, autograd::Tape* tape,
                          const autograd::Var& x) const;

  /// The final norm, if the model has one: the last hidden state [n, hidden]. Last stage only.
  autograd::Var normalise(const Pass& pass, const autograd::Var& x) const;
  /// The output projection, if the model has one: what the head multiplies, [n, embed_dim].
  autograd::Var project(const Pass& pass, const autograd::Var& x) const;
  /// Both.
  autograd::Var finish(const Pass& pass, const autograd::Var& x) const {
    return project(pass, normalise(pass, x));
  }

  /// The head's matrix [vocab on this rank, embed_dim].
  const autograd::Var& head() const { return plan_.has_head ? *head_ : embedding_; }

  const ModelSpec& spec() const { return spec_; }
  const StagePlan& plan() const { return plan_; }
  comm::Communicator* tp() const { return tp_; }
  Device& device() const { return device_; }
  ParameterSet& parameters() { return parameters_; }
  const ParameterSet& parameters() const { return parameters_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  StageExtension* extension() const { return extension_; }
  const autograd::RopeTables* rope() const { return spec_.rope.enabled() ? &rope_ : nullptr; }
  const autograd::Var& embedding() const { return embedding_; }
  const autograd::Var& positions() const { return positions_; }
  const NormWeights& final_norm() const { return final_norm_; }
  const autograd::Var& project_in() const { return project_in_; }
  const autograd::Var& project_out() const { return project_out_; }

 private:
  void declare_embedding();
  void declare_block(Block& block, StageExtension* extension);
  void declare_head();
  void declare_norm(NormWeights& weights, const std::string& name);
  std::vector<LinearPart> qkv_parts(const Block& block) const;
  void declare_column_split(LinearWeights& weights, LinearSite site, bool bias,
                            StageExtension* extension);
  void declare_row_split(LinearWeights& weights, const LinearSite& site, bool bias,
                         StageExtension* extension);
  void make_rope_tables();
  const Block& block_of(std::int64_t layer) const {
    return blocks_.at(static_cast<std::size_t>(layer - plan_.first_layer));
  }
  autograd::Var block(const Block& weights, const Pass& pass, autograd::Tape* tape,
                      const autograd::Var& x) const;
  autograd::Var controlled_block(const Block& weights, const Pass& pass, autograd::Tape* tape,
                                 const autograd::Var& x) const;
  autograd::Var attention_branch(const Block& weights, const Pass& pass, autograd::Tape* tape,
                                 const autograd::Var& x) const;
  autograd::Var mlp_branch(const Block& weights, const Pass& pass, autograd::Tape* tape,
                           const autograd::Var& x) const;
  autograd::Var multiply(const LinearWeights& weights, const Pass& pass, autograd::Tape* tape,
                         const autograd::Var& x, bool with_bias) const;
  autograd::Var normed(autograd::Tape* tape, const NormWeights& weights,
                       const autograd::Var& x) const;
  Device& device_;
  ModelSpec spec_;
  StagePlan plan_;
  comm::Communicator* tp_;
  StageExtension* extension_;
  ParameterSet parameters_;

  autograd::Var embedding_, positions_, project_in_, project_out_, head_own_;
  const autograd::Var* head_ = nullptr;
  NormWeights final_norm_;
  std::vector<Block> blocks_;
  autograd::RopeTables rope_;
  int embedding_bucket_ = -1, head_bucket_ = -1;
};

/// Dropout masks of a site: the embedding is layer 0, blocks count from 1.
enum class DropoutSite : std::uint32_t {
  embedding = 0,
  attention = 1,
  attention_out = 2,
  mlp_out = 3
};
std::uint32_t dropout_site(std::int64_t layer, DropoutSite site);

/// Dropout of a site on the rows of a pass; off without a tape or probability.
kernels::Dropout rows_dropout(const Pass& pass, float probability, std::uint32_t site);

}  // namespace fathom::model
