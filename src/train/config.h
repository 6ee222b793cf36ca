#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "data/overlong.h"
#include "data/spans/spans.h"
#include "kernels/backend.h"
#include "kernels/divergence.h"
#include "methods/adapters/adapter_spec.h"
#include "methods/distill/threshold.h"
#include "methods/moc/spec.h"
#include "methods/mode/mode_spec.h"
#include "methods/mode/shrink.h"
#include "methods/mta/options.h"

/// What a training run is asked to do, as plain values. One structure per section of the INI file;
/// `launch/options` names, reads and prints them, and nothing below `launch/` knows them as text.
/// The initialisers here are the defaults that --help shows.
namespace fathom::train {

enum class Resume { automatic, never, must };

/// What becomes of a run whose checkpoint could not be written.
enum class SaveErrors {
  end,   ///< it ends, with the error
  retry  ///< it goes on, and the next save tries again
};

struct RunConfig {
  std::string dir;
  std::int64_t seed = 1;
  int steps = 1000;
  int log_every = 10;
  int eval_every = 0;    ///< 0: only before the first and after the last step
  int eval_batches = 0;  ///< micro-batches; 0: the whole evaluation set
  int save_every = 0;    ///< 0: only after the last step
  int keep = 3;          ///< 0: all
  SaveErrors save_errors = SaveErrors::end;
  Resume resume = Resume::automatic;
  bool resume_fallback = false;  ///< take an earlier checkpoint if the newest is damaged
  bool reset_data = false;
  bool reset_optimizer = false;
  bool accept_changes = false;
  kernels::DeviceKind device = kernels::DeviceKind::automatic;
  kernels::Precision precision = kernels::Precision::f32;
  int threads = 0;                  ///< per rank; 0: the cores this rank is bound to
  double memory_limit_gib = 0.0;    ///< per rank; 0: none
  double watchdog_seconds = 600.0;  ///< 0: no watchdog at all
  double watchdog_load_seconds = 3600.0;
  double watchdog_save_seconds = 1800.0;
  double watchdog_eval_seconds = 1800.0;
  bool quiet = false;
};

enum class Init { path, random, teacher_layers };

/// Either an explicit list of layers, or every n-th one; both empty and 0 mean "not given".
struct LayerChoice {
  std::vector<int> layers;
  int every = 0;

  bool given() const { return every > 0 || !layers.empty(); }
  bool operator==(const LayerChoice&) const = default;
};

/// Shell patterns of parameter names ("model.embed*"); none matches nothing.
struct NamePatterns {
  std::vector<std::string> patterns;

  /// True when a pattern covers the whole name (`*` also covers dots).
  bool match(const std::string& name) const;
  bool operator==(const NamePatterns&) const = default;
};

struct ModelConfig {
  std::string path;    ///< Hugging Face folder
  std::string config;  ///< config.json, for a model with random weights
  Init init = Init::path;
  LayerChoice teacher_layers;
  NamePatterns freeze;
  DType frozen_dtype = DType::f32;
};

/// What is added to the frozen model and trained instead of it.
struct AdapterConfig {
  methods::adapters::AdapterSpec spec;
  std::string path;    ///< adapter folder to start from; it then says what the adapter is
  NamePatterns train;  ///< parameters of the model that are trained as well

  bool given() const { return spec.kind != methods::adapters::Kind::none || !path.empty(); }
};

struct TeacherConfig {
  std::string path;  ///< empty: no teacher, plain training
  DType dtype = DType::f32;
};

using data::Overlong;

struct DataConfig {
  std::string train;
  std::string eval;
  std::string corpus;  ///< records for the language-modelling term beside distillation; empty: none
  int context = 0;     ///< tokens; 0: what the model allows
  Overlong overlong = Overlong::refuse;
  bool any_tokenizer = false;  ///< take files whatever tokenizer made them
};

/// Where the words and phrases of samples come from; used by objectives that compare them.
struct SpansConfig {
  std::string train;  ///< span file of data.train; empty: found while training
  std::string model;  ///< the extractor's model; needed without a span file, and for text that the
                      ///< student writes
  data::spans::Words words = data::spans::Words::all;
  data::spans::VerbPhrases vp = data::spans::VerbPhrases::pattern;
  int threads = 1;  ///< per rank, beside the model's own

  bool given() const { return !train.empty() || !model.empty(); }
};

struct BatchConfig {
  int micro_batch = 4;           ///< sequences
  int micro_batches = 8;         ///< per optimizer step, over all data-parallel ranks together
  int corpus_micro_batches = 1;  ///< of the corpus, beside them
};

struct GridConfig {
  int tp = 1;
  int pp = 1;
  int dp = 1;
  std::vector<int> layers;  ///< layers on each stage; empty: by what they cost
  std::vector<int> teacher_layers;

  std::int64_t ranks() const { return std::int64_t{tp} * pp * dp; }
};

using kernels::Divergence;

enum class Normalise {
  tokens,     ///< every supervised token of the step counts the same
  sequences,  ///< every sequence does: its token mean, then the mean over sequences
};

struct LossConfig {
  double ce_weight = 1.0;
  double kd_weight = 0.0;
  Divergence divergence = Divergence::forward_kl;
  double alpha = 0.1;            ///< of the skewed divergences
  double beta = 0.5;             ///< of js
  bool detach_mixture = false;   ///< of skew_reverse_kl
  double corpus_weight = 1.0;    ///< of the cross-entropy on data.corpus
  double rejected_weight = 1.0;  ///< of the student's side of prepared pairs; 2 in all
  double temperature = 1.0;
  bool scale_t2 = false;
  bool on_prompt = false;  ///< of data.train: learn prompts, too
  Normalise normalise = Normalise::tokens;
  int vocab = 0;       ///< entries of the vocabulary that count; 0: all that both models have
  int chunk_rows = 0;  ///< rows of logits held at a time; 0: chosen from the vocabulary
};

/// Multi-granular trajectory alignment; layers count as in methods/key_layers.h.
struct MtaConfig {
  bool enabled = false;
  std::vector<int> student_layers;  ///< empty: a half, three quarters and the last
  std::vector<int> teacher_layers;  ///< empty: in proportion to the depths
  methods::mta::Granularity granularity = methods::mta::Granularity::adaptive;
  int words = 0;            ///< lower key layers on words; 0: a third, rounded up
  double dsa_weight = 2.0;  ///< 0: leave the term out
  double hid_weight = 0.2;
  methods::mta::PairNormalisation normalise = methods::mta::PairNormalisation::sample;
  methods::mta::SpanRegion span_region = methods::mta::SpanRegion::all;
  double projector_lr = 0.0;  ///< 0: optim.lr
};

/// Feature dynamics distillation; layers likewise.
struct FddConfig {
  bool enabled = false;
  std::vector<int> student_layers;
  std::vector<int> teacher_layers;
  double trajectory_weight = 1.0;  ///< 0: leave the term out
  double derivative_weight = 1.0;
  double temperature = 5.0;  ///< of the trajectory
};

using methods::distill::ReplaySchedule;

/// What a student is distilled on.
enum class DistillMethod {
  off_policy,   ///< the training set
  mixed,        ///< with a fixed probability its own answers (GKD, ImitKD)
  adaptive,     ///< its own answers once it does worse on held-out data (DistiLLM)
  contrastive,  ///< prepared pairs of the teacher's and the student's answers (DistiLLM-2)
};

struct DistillConfig {
  DistillMethod method = DistillMethod::off_policy;
  double lambda = 0.5;          ///< mixed: probability of a micro-batch of own answers
  double init_threshold = 0.0;  ///< adaptive: phi before the first evaluation
  double epsilon = 0.1;         ///< adaptive: nats by which the held-out loss must rise
  ReplaySchedule replay = ReplaySchedule::decreasing;
  int capacity = 1000;  ///< adaptive: answers that the replay buffer keeps, of all ranks together
  double temperature = 1.0;
  double top_p = 1.0;
  int top_k = 0;            ///< 0: all
  int no_repeat_ngram = 0;  ///< 0: off
  int max_new = 256;        ///< tokens of an answer
  int batch = 32;           ///< answers that are decoded together
  std::string pairs;        ///< contrastive: folder that `fathom pairs` wrote
  bool curriculum = false;  ///< contrastive: an alpha of its own for each answer

  /// True if the student answers prompts while it trains.
  bool generates() const {
    return method == DistillMethod::mixed || method == DistillMethod::adaptive;
  }
};

/// The last k layers vote on the next token; layers count from 1.
struct ModeConfig {
  bool enabled = false;
  methods::mode::ModeSpec spec;
  methods::mode::RouterInit router_init = methods::mode::RouterInit::last;
  double lambda = 0.1;       ///< weight of the distillation of the last layer into the others
  double temperature = 1.0;  ///< of the distillation
  bool light = false;        ///< the adapter leaves out the last k layers
  methods::mode::ShrinkRule shrink = {};
};

enum class Decay { matrices, all };

struct OptimConfig {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  Decay decay = Decay::matrices;
  double clip = 1.0;  ///< 0: no clipping
};

enum class ScheduleKind { constant, linear, cosine, wsd };

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::cosine;
  int warmup_steps = 0;
  int decay_steps = 0;  ///< 0: what is left of the run after the warm-up (not for wsd)
  double min_lr_ratio = 0.0;
};

struct DropoutConfig {
  double embedding = 0.0;
  double residual = 0.0;
  double attention = 0.0;
};

enum class Recompute {
  none,   ///< keep all that the backward pass needs
  cheap,  ///< make the results of norms and activations again
  block,  ///< keep only each block's input
};

struct MemoryConfig {
  Recompute recompute = Recompute::cheap;
};

enum class ProgressMode { automatic, on, off };

struct LogConfig {
  bool jsonl = true;
  bool tensorboard = true;
  ProgressMode progress = ProgressMode::automatic;
};

/// What faults.h does to a rank, for tests.
enum class FaultKind {
  none,
  freeze,        ///< the whole process stops (SIGSTOP)
  stall,         ///< the working thread sleeps
  kill,          ///< the process dies at once (SIGKILL)
  usr1,          ///< it gets SIGUSR1, as from a batch system
  term,          ///< it gets SIGTERM
  nan,           ///< its loss is not finite
  failed_write,  ///< a stage of a save fails
  full_disk,     ///< none of its files can grow any more
  slow_link,     ///< each of its messages to another stage is late
};

struct FaultsConfig {
  FaultKind kind = FaultKind::none;
  int rank = 0;
  int step = 1;        ///< as the log counts: in its making, or its evaluation or save
  std::string action;  ///< as the watchdog names it, or a stage of a save
  double seconds = 0.0;
};

struct TrainConfig {
  RunConfig run;
  ModelConfig model;
  AdapterConfig adapter;
  methods::moc::Spec moc;
  TeacherConfig teacher;
  DataConfig data;
  SpansConfig spans;
  BatchConfig batch;
  GridConfig grid;
  LossConfig loss;
  MtaConfig mta;
  FddConfig fdd;
  ModeConfig mode;
  DistillConfig distill;
  OptimConfig optim;
  ScheduleConfig schedule;
  DropoutConfig dropout;
  MemoryConfig memory;
  LogConfig log;
  FaultsConfig faults;
};

/// A rule between several keys that a configuration breaks.
struct Violation {
  std::vector<std::string> keys;  ///< "section.key" of every value involved
  std::string rule;               ///< a sentence that says what would be accepted
};

/// The rules that models, grid and losses must keep in any command that builds them.
std::vector<Violation> engine_violations(const TrainConfig& config);

/// Every broken rule of a training run: engine_violations and those of data, schedule and saving.
/// The ranges of single keys are checked where they are read.
std::vector<Violation> violations(const TrainConfig& config);

/// Throws Error(config) that lists every broken rule. Touches no file, takes no memory, and is
/// called on each rank before MPI starts; rules that need the model's config.json or the number of
/// ranks are checked by those who read them.
void validate(const TrainConfig& config);

}  // namespace fathom::train
