#pragma once

#include <memory>
#include <optional>

#include "comm/process_grid.h"
#include "methods/key_layers.h"
#include "methods/moc/extension.h"
#include "model/weights.h"
#include "pipeline/executor.h"
#include "pipeline/partition.h"
#include "train/config.h"
#include "train/distil_work.h"
#include "train/gradient_reducer.h"
#include "train/optimizer.h"

namespace fathom::train {

/// What a run builds, known before memory is taken: both models' specs and their places on the
/// grid.
struct EnginePlan {
  model::ModelSpec student;
  std::optional<model::ModelSpec> teacher;
  std::vector<std::int64_t>
      student_from_teacher;  ///< teacher layers that start the student, or empty
  pipeline::Partition student_layers;
  std::optional<pipeline::Partition> teacher_layers;
  methods::adapters::AdapterSpec adapter{};     ///< of the student, its targets written out
  std::string adapter_path{};                   ///< folder that it starts from; may be empty
  methods::moc::Spec moc{};                     ///< of the student; not with an adapter
  std::vector<methods::KeyLayer> mta_layers{};  ///< compared; empty where not asked for
  std::vector<methods::KeyLayer> fdd_layers{};
  std::optional<methods::mode::ModeSpec> mode{};  ///< late layers of the student that vote
  std::string mode_path{};  ///< folder that their parameters start from; may be empty
  methods::mode::Transport vote_transport = methods::mode::Transport::states;
  std::int64_t loss_vocab = 0;  ///< vocabulary entries that both models have
  std::int64_t context = 0;     ///< tokens a record may have
  double label_share = 1;       ///< of the training set's tokens

  /// Puts an adapter on the student: `spec`, or what the folder `path` says if one is given. Throws
  /// Error(config) or Error(data) if it does not fit the model.
  void set_adapter(const methods::adapters::AdapterSpec& spec, const std::string& path);
  /// Puts mixture of control on the student. Throws Error(config) if it does not fit the model.
  void set_moc(const methods::moc::Spec& spec);

  /// Lets the student's late layers vote, with what the folder `path` has if one is given; `model`
  /// is the Hugging Face folder of the weights that it then has to fit, if they come from one.
  /// Throws Error(config) if the model cannot, Error(data) if the folder is another model's.
  void set_mode(const methods::mode::ModeSpec& spec, const std::string& path = "",
                const std::string& model = "");

  /// The part of a model on one rank of the grid.
  model::StagePlan stage_plan(const model::ModelSpec& spec, const pipeline::Partition& layers,
                              const comm::GridShape& grid,
                              const comm::GridCoordinates& place) const;
};

/// Reads the configs that `config` names and lays both models out on the grid. Throws Error(config)
/// for impossible grids and unlike models, naming the key. Touches no device and no MPI.
EnginePlan make_engine_plan(const TrainConfig& config);

/// The plan of a single model that only runs forward, on the grid of `config`. Throws Error(config)
/// for a grid that it does not allow.
EnginePlan plan_for(const model::ModelSpec& spec, const TrainConfig& config);

/// What a term came to in a step, without its weight; 0 where there was nothing to count.
inline double value_of(const methods::StateTerm& term) {
  return term.count > 0 ? term.sum / term.count : 0;
}

/// The models of a run on this rank and what trains them. Construction is collective over the grid.
class Engine {
 public:
  /// The losses on hidden states that a run adds to those of the head.
  using Losses = std::vector<std::unique_ptr<methods::StateLoss>>;

  /// Allocates parameters, gradients and, with `train`, optimizer state; sets no weights.
  Engine(Device& device, comm::ProcessGrid& grid, const TrainConfig& config, const EnginePlan& plan,
         bool train, Losses losses = {});

  /// Sets the student's and the teacher's weights as the configuration says.
  void load_initial_weights();
  /// Sets the student's from a source, the adapter's from plan.adapter_path if there is one.
  /// Collective over the tensor group.
  void load_student(const model::WeightSource& source);
  void initialise_vote();
  /// Sets the teacher's alone: on resume the student's come from the checkpoint.
  void load_teacher();

  /// Leaves only the last k layers with a vote, whose states and parameters alone take part from
  /// then on; 2 <= k <= what the engine was made with. Between two steps, collective over the grid.
  void keep_late_layers(int k);

  /// Must follow every other change of the student's weights, such as a checkpoint's. Collective
  /// over the tensor group.
  void weights_changed();

  /// One forward and backward pass of a step over this rank's micro-batches, gradients reduced over
  /// all ranks at the end. `counts` are the step's over all ranks. Collective over the grid.
  model::LossSums forward_backward(std::vector<data::MicroBatch> slots,
                                   const data::RoleCounts& counts, std::int64_t step,
                                   const pipeline::ActionObserver& observer = {});

  /// The terms of the losses on hidden states in the last forward_backward(), summed over all
  /// ranks, on every rank.
  const std::vector<methods::StateTerm>& state_terms() const { return state_terms_; }

  /// What the gradients of a forward_backward() are of, whose sums these are: those of the head
  /// and, by their weights, of state_terms(). Of evaluate(), which has no such terms, the head's
  /// alone.
  double objective(const model::LossSums& sums) const;

  /// The curriculum of pairs; null without.
  RowAlpha* row_alpha() { return row_alpha_.get(); }

  /// Bytes that the stages of this rank's pipeline sent each other in the training steps since the
  /// last call. Collective over the pipeline axis.
  std::int64_t take_stage_bytes();

  /// The experts chosen in it, over all ranks, beside those of the step before. Only with mixture
  /// of control; collective over the grid.
  std::optional<methods::moc::UsageSummary> expert_usage();

  /// The same without gradients: sums over all ranks, on every rank. Their objective is one only if
  /// `counts` are given, by which its terms are divided.
  model::LossSums evaluate(std::vector<data::MicroBatch> slots,
                           const pipeline::ActionObserver& observer = {},
                           const data::RoleCounts& counts = {});

  /// One optimizer update; see Optimizer::step. Collective over the tensor group.
  void update(double lr, double gradient_scale);

  /// The sums of the last forward_backward() or evaluate() by role, over all ranks, on every rank.
  const RoleSums& role_sums() const { return role_sums_; }

  comm::ProcessGrid& grid() { return grid_; }
  Device& device() { return device_; }
  model::Stage& student() { return *student_; }
  /// Null unless late layers vote.
  const methods::mode::LateVote* vote() const { return vote_.get(); }
  model::Stage* teacher() { return teacher_.get(); }
  DistilWork& work() { return *work_; }
  Optimizer& optimizer() { return *optimizer_; }
  methods::moc::MixtureOfControl* moc() { return moc_; }  ///< null without
  const EnginePlan& plan() const { return plan_; }

 private:
  model::LossSums reduce_sums();
  void make_extension();
  void make_executors(bool train);
  void begin_extension();
  void reduce_state_terms();
  int first_trainable_stage();

  Device& device_;
  comm::ProcessGrid& grid_;
  TrainConfig config_;
  EnginePlan plan_;
  std::unique_ptr<comm::Communicator> kv_replicas_;
  std::unique_ptr<model::StageExtension> extension_;  // an adapter or mixture of control
  methods::moc::MixtureOfControl* moc_ = nullptr;     // the same, or null
  methods::moc::UsageLog usage_log_;
  std::unique_ptr<methods::mode::LateVote> vote_;
  std::unique_ptr<RowAlpha> row_alpha_;
  Losses losses_;
  std::vector<methods::StateTerm> state_terms_;
  RoleSums role_sums_;
  std::unique_ptr<model::Stage> student_, teacher_;
  std::unique_ptr<DistilWork> work_;
  std::unique_ptr<pipeline::Executor> executor_, evaluator_;
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<Optimizer> optimizer_;
  int first_trainable_ = 0;
  std::size_t bytes_told_ = 0;  // by take_stage_bytes()
};

}  // namespace fathom::train
