#pragma once

#include <string>
#include <vector>

#include "checkpoints/checkpoint_reader.h"
#include "checkpoints/shard.h"
#include "data/batch_plan.h"
#include "train/engine.h"

namespace fathom::train {

/// What a checkpoint knows besides tensors.
struct RunState {
  std::int64_t step = 0;             ///< optimizer steps done
  std::int64_t optimizer_steps = 0;  ///< updates that the moments have seen
  data::DataIdentity data;
  std::int64_t data_start = 0;         ///< the step that took sample 0 of the data set
  std::string model_config;            ///< config.json of the student
  std::string teacher;                 ///< model_fingerprint of the teacher; empty without one
  std::string adapter;                 ///< adapter_config.json of its adapter; empty without one
  std::string mode;                    ///< how its late layers vote; empty if they do not
  std::string moc;                     ///< its mixture of control (moc::to_json); empty without one
  int mode_k = 0;                      ///< late layers that the run declared; `mode` has those left
  int mode_steps_below = 0;            ///< ShrinkWatch::steps_below
  std::optional<bool> loss_on_prompt;  ///< loss.on_prompt; older checkpoints do not say
  bool evaluation_due = false;  ///< the run was stopped before the evaluation after this step
  std::string method = "{}";    ///< MethodState::values
  std::optional<methods::distill::ReferenceGaps> gaps;  ///< of the curriculum of pairs
};

/// The adapter_config.json of a plan's adapter on the base model `base`; empty without one.
std::string adapter_json(const EnginePlan& plan, const std::string& base);

/// Throws Error(config) that lists what differs between the adapter of a checkpoint and that of the
/// plan: weights would be restored into another method than they were trained in. The base model's
/// name is no part of it.
void require_same_adapter(const RunState& saved, const EnginePlan& plan, const std::string& origin);

/// JSON of a state, and back; throws Error(io) naming `origin`.
std::string to_json(const RunState& state);
RunState parse_run_state(const std::string& json, const std::string& origin);

/// Host copies of what this rank saves of the student: parameters, in the dtype in which they are
/// kept, and with `moments` the optimizer's "<name>#exp_avg" and "<name>#exp_avg_sq".
/// Data-parallel replicas share the work.
checkpoints::Snapshot snapshot(Engine& engine, bool moments);

/// The parameters that the run of a checkpoint trained: those with moments.
std::vector<std::string> trained_parameters(const checkpoints::Manifest& manifest);

/// Throws Error(config) naming parameters of a checkpoint that are none of the run's: it would go
/// on without what they have learnt. Moments, a method's own state and the projectors of MTA, which
/// serve its loss alone, may be left behind. Collective over the world.
void require_all_wanted(Engine& engine, const checkpoints::CheckpointReader& reader);

/// Sets all parameters from a checkpoint of any grid. Throws Error(io) naming what is missing or of
/// another shape.
void restore(model::ParameterSet& parameters, checkpoints::CheckpointReader& reader);
/// Sets the student's parameters and, with `moments`, the optimizer's.
void restore(Engine& engine, checkpoints::CheckpointReader& reader, bool moments);

}  // namespace fathom::train
