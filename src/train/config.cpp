#include "train/config.h"

#include <algorithm>
#include <fnmatch.h>
#include <functional>

#include "core/error.h"
#include "methods/distill/curriculum.h"
#include "train/config_rules.h"
#include "train/faults.h"

namespace fathom::train {
namespace {

void check_model(const ModelConfig& model, const TeacherConfig& teacher, bool adapted,
                 Rules& rules) {
  const bool from_path = model.init == Init::path;
  const bool random = model.init == Init::random;
  const bool from_teacher = model.init == Init::teacher_layers;
  rules.must(!from_path || !model.path.empty(), {"model.init", "model.path"},
             "init = path needs the model's folder in model.path");
  rules.must(from_path || model.path.empty(), {"model.init", "model.path"},
             "model.path is read only with init = path; leave it empty");
  rules.must(!random || !model.config.empty(), {"model.init", "model.config"},
             "init = random needs the model's config.json in model.config");
  rules.must(random || model.config.empty(), {"model.init", "model.config"},
             "model.config is read only with init = random; leave it empty");
  rules.must(!from_teacher || model.teacher_layers.given(), {"model.init", "model.teacher_layers"},
             "init = teacher_layers needs the layers to take, such as 0,3,6 or every:3");
  rules.must(from_teacher || !model.teacher_layers.given(), {"model.init", "model.teacher_layers"},
             "model.teacher_layers is read only with init = teacher_layers; leave it empty");
  rules.must(!from_teacher || !teacher.path.empty(), {"model.init", "teacher.path"},
             "init = teacher_layers needs the teacher's folder in teacher.path");
  const auto& layers = model.teacher_layers.layers;
  rules.must(
      std::adjacent_find(layers.begin(), layers.end(), std::greater_equal<>()) == layers.end(),
      {"model.teacher_layers"}, "the layers must ascend, each named once");
  rules.must(layers.empty() || layers.front() >= 0, {"model.teacher_layers"},
             "layers are counted from 0");
  rules.must(model.frozen_dtype == DType::f32 || !model.freeze.patterns.empty() || adapted,
             {"model.frozen_dtype", "model.freeze"},
             "frozen_dtype = bf16 applies to frozen weights, and model.freeze names none");
  rules.must(!adapted || model.freeze.patterns.empty(), {"model.freeze", "adapter.kind"},
             "with an adapter all of the model is frozen; name what is trained in adapter.train");
}

void check_split(const GridConfig& grid, const std::vector<int>& layers, const std::string& key,
                 Rules& rules) {
  if (layers.empty()) return;
  rules.must(layers.size() == static_cast<std::size_t>(grid.pp), {key, "grid.pp"},
             str("the list needs one number of layers for each of the ", grid.pp, " stages"));
  rules.must(std::all_of(layers.begin(), layers.end(), [](int n) { return n > 0; }), {key},
             "every stage needs at least one layer");
}

void check_losses(const TrainConfig& config, Rules& rules) {
  const LossConfig &loss = config.loss, defaults;
  const TeacherConfig& teacher = config.teacher;
  const bool reverse = loss.divergence == Divergence::skew_reverse_kl;
  const bool skewed = reverse || loss.divergence == Divergence::skew_kl ||
                      config.distill.method == DistillMethod::contrastive;
  rules.must(loss.ce_weight > 0 || loss.kd_weight > 0, {"loss.ce_weight", "loss.kd_weight"},
             "at least one weight must be greater than 0");
  rules.must(loss.kd_weight == 0 || !teacher.path.empty(), {"loss.kd_weight", "teacher.path"},
             "a divergence needs a teacher: give its folder, or set kd_weight = 0");
  rules.must(loss.divergence == defaults.divergence || loss.kd_weight > 0,
             {"loss.divergence", "loss.kd_weight"},
             "the divergence would have no weight: set kd_weight, or leave divergence out");
  rules.must(!skewed || (loss.alpha > 0 && loss.alpha < 1), {"loss.divergence", "loss.alpha"},
             "a skewed divergence mixes both models: alpha must be greater than 0 and less than 1");
  rules.must(skewed || loss.alpha == defaults.alpha, {"loss.divergence", "loss.alpha"},
             "alpha is read only by skewed divergences; leave it out");
  rules.must(loss.divergence == Divergence::js || loss.beta == defaults.beta,
             {"loss.divergence", "loss.beta"}, "beta is read only by js; leave it out");
  rules.must(reverse || !loss.detach_mixture, {"loss.divergence", "loss.detach_mixture"},
             "detach_mixture is read only by skew_reverse_kl; leave it out");
}

void check_key_layers(const std::string& section, const std::vector<int>& student,
                      const std::vector<int>& teacher, Rules& rules) {
  const std::string student_key = section + ".student_layers",
                    teacher_key = section + ".teacher_layers";
  const auto check_list = [&](const std::vector<int>& layers, const std::string& key) {
    rules.must(
        std::adjacent_find(layers.begin(), layers.end(), std::greater_equal<>()) == layers.end(),
        {key}, "the layers must ascend, each named once");
    rules.must(layers.empty() || layers.front() >= 0, {key},
               "layers are counted from 0, the embedding");
  };
  check_list(student, student_key);
  check_list(teacher, teacher_key);
  rules.must(teacher.empty() || teacher.size() == student.size(), {student_key, teacher_key},
             "each student layer needs one teacher layer, in the same order");
}

void check_mta(const TrainConfig& config, Rules& rules) {
  const MtaConfig& mta = config.mta;
  if (!mta.enabled) return;
  const std::size_t layers = mta.student_layers.size();
  check_key_layers("mta", mta.student_layers, mta.teacher_layers, rules);
  rules.must(!config.teacher.path.empty(), {"mta.enabled", "teacher.path"},
             "MTA aligns the student with a teacher: give its folder");
  rules.must(config.spans.given(), {"mta.enabled", "spans.train", "spans.model"},
             "MTA needs words and phrases: a span file (fathom spans build writes them), or the "
             "extractor's model");
  const bool pairs = config.distill.method == DistillMethod::contrastive;
  rules.must(
      !config.spans.given() || !config.spans.model.empty() ||
          config.distill.method == DistillMethod::off_policy,
      {"mta.enabled", "distill.method", "spans.model"},
      "no span file has the answers that a student writes, or those of pairs: MTA on them needs "
      "the extractor's model");
  rules.must(!pairs || config.spans.train.empty(), {"distill.method", "spans.train"},
             "a span file is one of data.train, which method = contrastive does not read: leave "
             "spans.train empty");
  rules.must(mta.dsa_weight > 0 || mta.hid_weight > 0, {"mta.dsa_weight", "mta.hid_weight"},
             "at least one weight must be greater than 0");
  rules.must(mta.words == 0 || mta.granularity == methods::mta::Granularity::adaptive,
             {"mta.words", "mta.granularity"}, "words is read only with granularity = adaptive");
  rules.must(mta.words == 0 || layers == 0 || static_cast<std::size_t>(mta.words) <= layers,
             {"mta.words", "mta.student_layers"}, "there are fewer key layers than that");
  rules.must(
      mta.normalise != methods::mta::PairNormalisation::batch ||
          (config.batch.micro_batches == 1 && config.grid.dp == 1),
      {"mta.normalise", "batch.micro_batches", "grid.dp"},
      "normalise = batch divides by what one micro-batch holds: the step must have only one");
}

void check_fdd(const TrainConfig& config, Rules& rules) {
  const FddConfig& fdd = config.fdd;
  if (!fdd.enabled) return;
  check_key_layers("fdd", fdd.student_layers, fdd.teacher_layers, rules);
  rules.must(!config.teacher.path.empty(), {"fdd.enabled", "teacher.path"},
             "FDD follows a teacher: give its folder");
  rules.must(fdd.trajectory_weight > 0 || fdd.derivative_weight > 0,
             {"fdd.trajectory_weight", "fdd.derivative_weight"},
             "at least one weight must be greater than 0");
  rules.must(
      fdd.derivative_weight == 0 || fdd.student_layers.size() != 1,
      {"fdd.derivative_weight", "fdd.student_layers"},
      "the derivative is taken between key layers: name two or more, or set its weight to 0");
}

void check_shrink(const ModeConfig& mode, Rules& rules) {
  const methods::mode::ShrinkRule &shrink = mode.shrink, defaults;
  if (!shrink.enabled()) {
    rules.must(shrink.steps == defaults.steps && shrink.least == defaults.least,
               {"mode.shrink_below", "mode.shrink_steps", "mode.shrink_least"},
               "k does not shrink without shrink_below: leave these out");
    return;
  }
  rules.must(mode.spec.router == methods::mode::Router::learnt,
             {"mode.shrink_below", "mode.router"},
             "a uniform router's weights say nothing about layers: leave shrink_below at 0");
  rules.must(shrink.least <= mode.spec.k, {"mode.shrink_least", "mode.k"},
             "no more layers can stay than vote");
  rules.must(mode.spec.top_k <= shrink.least, {"mode.top_k", "mode.shrink_least"},
             "as many layers must stay as are kept for a token");
}

void check_mode(const TrainConfig& config, Rules& rules) {
  using methods::mode::Router;
  const ModeConfig& mode = config.mode;
  if (!mode.enabled) return;
  rules.must(mode.spec.top_k <= mode.spec.k, {"mode.top_k", "mode.k"},
             "no more layers can be kept than vote");
  rules.must(mode.spec.top_k == 0 || mode.spec.router == Router::learnt,
             {"mode.top_k", "mode.router"},
             "a uniform router has no largest weights: leave top_k at 0");
  rules.must(!mode.light || config.adapter.given(), {"mode.light", "adapter.kind"},
             "light leaves the last k layers without an adapter: name one");
  rules.must(!mode.light || (config.adapter.path.empty() && config.adapter.spec.layers.empty()),
             {"mode.light", "adapter.path", "adapter.layers"},
             "light chooses the adapter's layers itself: leave both empty");
  rules.must(mode.spec.router_input == methods::mode::RouterInput::raw ||
                 mode.spec.router == Router::learnt,
             {"mode.router_input", "mode.router"}, "a uniform router reads nothing: leave it out");
  const ModeConfig defaults;
  rules.must(mode.router_init == defaults.router_init || mode.spec.router == Router::learnt,
             {"mode.router_init", "mode.router"},
             "a uniform router always gives 1/k: leave router_init out");
  rules.must(mode.spec.k > 1 || ((mode.lambda == 0 || mode.lambda == defaults.lambda) &&
                                 mode.temperature == defaults.temperature),
             {"mode.k", "mode.lambda", "mode.temperature"},
             "the only layer that votes has no other one to teach: leave both out");
  check_shrink(mode, rules);
}

void check_schedule(const ScheduleConfig& schedule, int steps, Rules& rules) {
  const bool constant = schedule.kind == ScheduleKind::constant;
  rules.must(schedule.warmup_steps <= steps, {"schedule.warmup_steps", "run.steps"},
             "the warm-up must end within the run");
  rules.must(!constant || schedule.decay_steps == 0, {"schedule.kind", "schedule.decay_steps"},
             "a constant schedule does not decay; leave decay_steps at 0");
  rules.must(schedule.kind != ScheduleKind::wsd || schedule.decay_steps > 0,
             {"schedule.kind", "schedule.decay_steps"},
             "wsd needs the length of its final decay, at least 1 step");
  rules.must(schedule.kind != ScheduleKind::wsd ||
                 std::int64_t{schedule.warmup_steps} + schedule.decay_steps <= steps,
             {"schedule.warmup_steps", "schedule.decay_steps", "run.steps"},
             "warm-up and decay must fit into the run");
}

void check_sampling(const DistillConfig& distill, Rules& rules) {
  const DistillConfig defaults;
  const bool same = distill.temperature == defaults.temperature &&
                    distill.top_p == defaults.top_p && distill.top_k == defaults.top_k &&
                    distill.no_repeat_ngram == defaults.no_repeat_ngram &&
                    distill.max_new == defaults.max_new && distill.batch == defaults.batch;
  rules.must(distill.generates() || same,
             {"distill.method", "distill.temperature", "distill.top_p", "distill.top_k",
              "distill.no_repeat_ngram", "distill.max_new", "distill.batch"},
             "text is generated only with method = mixed or adaptive; leave these out");
  rules.must(distill.temperature > 0 || (distill.top_k == 0 && distill.top_p == 1.0),
             {"distill.temperature", "distill.top_k", "distill.top_p"},
             "top_k and top_p choose among samples: give a temperature greater than 0");
}

void check_pairs(const TrainConfig& config, Rules& rules) {
  const LossConfig &loss = config.loss, defaults;
  const bool pairs = config.distill.method == DistillMethod::contrastive;
  rules.must(pairs == !config.distill.pairs.empty(), {"distill.method", "distill.pairs"},
             "method = contrastive, and it alone, reads the folder of pairs that fathom pairs "
             "wrote");
  rules.must(pairs || loss.rejected_weight == defaults.rejected_weight,
             {"distill.method", "loss.rejected_weight"},
             "rejected_weight is read only with method = contrastive; leave it out");
  rules.must(pairs || !config.distill.curriculum, {"distill.method", "distill.curriculum"},
             "the curriculum is one of pairs: it needs method = contrastive");
  if (!pairs) return;
  rules.must(!config.distill.curriculum || loss.alpha >= methods::distill::kLeastAlpha,
             {"distill.curriculum", "loss.alpha"},
             str("the curriculum chooses between ", methods::distill::kLeastAlpha,
                 " and loss.alpha, which must not be less"));
  rules.must(!config.distill.curriculum || !config.mode.enabled,
             {"distill.curriculum", "mode.enabled"},
             "the curriculum looks at the last layer alone, and here late layers vote; use either");
  rules.must(config.data.train.empty(), {"distill.method", "data.train"},
             "with method = contrastive the pairs are the training set; leave data.train empty");
  rules.must(loss.ce_weight == 0 && loss.kd_weight > 0,
             {"distill.method", "loss.ce_weight", "loss.kd_weight"},
             "pairs are learnt from by divergences alone: set kd_weight, and ce_weight = 0");
  rules.must(loss.divergence == defaults.divergence && loss.normalise == defaults.normalise,
             {"distill.method", "loss.divergence", "loss.normalise"},
             "method = contrastive has its own divergences and means; leave these out");
}

void check_distill(const TrainConfig& config, Rules& rules) {
  const DistillConfig& distill = config.distill;
  const DistillConfig defaults;
  const bool adaptive = distill.method == DistillMethod::adaptive;
  rules.must(distill.method == DistillMethod::mixed || distill.lambda == defaults.lambda,
             {"distill.method", "distill.lambda"},
             "lambda is read only with method = mixed; leave it out");
  const bool same = distill.init_threshold == defaults.init_threshold &&
                    distill.epsilon == defaults.epsilon && distill.replay == defaults.replay &&
                    distill.capacity == defaults.capacity;
  rules.must(adaptive || same,
             {"distill.method", "distill.init_threshold", "distill.epsilon", "distill.replay",
              "distill.capacity"},
             "these are read only with method = adaptive; leave them out");
  rules.must(!adaptive || config.run.eval_every > 0, {"distill.method", "run.eval_every"},
             "method = adaptive follows the loss on data.eval: set eval_every");
  rules.must(!adaptive || distill.capacity >= config.batch.micro_batch,
             {"distill.capacity", "batch.micro_batch"},
             "the replay buffer must hold at least a micro-batch");
  rules.must(!distill.generates() || config.loss.kd_weight > 0,
             {"distill.method", "loss.kd_weight"},
             "nothing but the divergence is learnt from the student's own text: set kd_weight");
  rules.must(!config.loss.on_prompt || distill.method == DistillMethod::off_policy,
             {"loss.on_prompt", "distill.method"},
             "prompts are learnt only from the records of data.train: method = off_policy");
  check_sampling(distill, rules);
  check_pairs(config, rules);
}

void check_device(const RunConfig& run, Rules& rules) {
  rules.must(run.device != kernels::DeviceKind::cpu || run.precision == kernels::Precision::f32,
             {"run.device", "run.precision"},
             "on the CPU, products of f32 matrices are f32: precision = f32, or a GPU");
}

void check_corpus(const TrainConfig& config, Rules& rules) {
  const bool corpus = !config.data.corpus.empty();
  rules.must(corpus || config.batch.corpus_micro_batches == BatchConfig().corpus_micro_batches,
             {"batch.corpus_micro_batches", "data.corpus"},
             "there is no corpus to take micro-batches from: name a token file in data.corpus");
  rules.must(corpus || config.loss.corpus_weight == LossConfig().corpus_weight,
             {"loss.corpus_weight", "data.corpus"},
             "there is no corpus to weigh: name a token file in data.corpus");
  rules.must(!corpus || config.loss.corpus_weight > 0, {"loss.corpus_weight", "data.corpus"},
             "the corpus would be read and add nothing: set corpus_weight, or leave it out");
}

void check_run(const TrainConfig& config, Rules& rules) {
  const RunConfig& run = config.run;
  rules.must(!run.dir.empty(), {"run.dir"}, "name the folder for checkpoints and metrics");
  rules.must(!config.data.train.empty() || config.distill.method == DistillMethod::contrastive,
             {"data.train"}, "name a token file (fathom tokenize writes them)");
  rules.must(run.eval_every == 0 || !config.data.eval.empty(), {"run.eval_every", "data.eval"},
             "periodic evaluation needs a token file in data.eval");
  rules.must(
      config.mode.enabled ||
          std::none_of(config.model.freeze.patterns.begin(), config.model.freeze.patterns.end(),
                       [](const std::string& pattern) { return pattern == "*"; }),
      {"model.freeze"}, "everything is frozen: nothing is left to train");
  rules.must(config.batch.micro_batches >= config.grid.dp, {"batch.micro_batches", "grid.dp"},
             "every data-parallel rank needs at least one whole micro-batch per step");
  rules.must(config.teacher.path.empty() || config.loss.kd_weight > 0 || config.mta.enabled ||
                 config.fdd.enabled || config.model.init == Init::teacher_layers,
             {"teacher.path", "loss.kd_weight"},
             "the teacher would be loaded and never used: set kd_weight, mta.enabled or "
             "fdd.enabled, or leave it out");
}

void check_faults(const FaultsConfig& faults, const GridConfig& grid, Rules& rules) {
  const bool none = faults.kind == FaultKind::none;
  const bool slow = faults.kind == FaultKind::slow_link;
  const bool lasts = faults.kind == FaultKind::stall || slow;
  const bool placed = !none && !slow && faults.kind != FaultKind::nan;
  rules.must(placed == !faults.action.empty(), {"faults.kind", "faults.action"},
             placed ? "name the action at which it happens, such as forward, update or save"
                    : "faults.action has no meaning here; leave it empty");
  rules.must(!placed || faults.action.empty() || is_fault_action(faults.action), {"faults.action"},
             "there is no such action, and it would never happen; --help lists them");
  rules.must(!slow || grid.pp > 1, {"faults.kind", "grid.pp"},
             "slow_link delays messages between stages, and there is only one");
  rules.must(
      lasts == (faults.seconds > 0), {"faults.kind", "faults.seconds"},
      lasts ? "say for how long, in seconds" : "faults.seconds has no meaning here; leave it at 0");
  rules.must(none || faults.rank < grid.ranks(), {"faults.rank", "grid.dp", "grid.pp", "grid.tp"},
             str("there are only ", grid.ranks(), " ranks, counted from 0"));
}

}  // namespace

bool NamePatterns::match(const std::string& name) const {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

std::vector<Violation> engine_violations(const TrainConfig& config) {
  Rules rules;
  const bool adapted = config.adapter.given() || config.moc.enabled;
  check_model(config.model, config.teacher, adapted, rules);
  check_tuning(config, rules);
  check_device(config.run, rules);
  check_split(config.grid, config.grid.layers, "grid.layers", rules);
  check_split(config.grid, config.grid.teacher_layers, "grid.teacher_layers", rules);
  rules.must(config.grid.teacher_layers.empty() || !config.teacher.path.empty(),
             {"grid.teacher_layers", "teacher.path"}, "there is no teacher whose layers to split");
  check_losses(config, rules);
  check_mta(config, rules);
  check_fdd(config, rules);
  check_mode(config, rules);
  return rules.take();
}

std::vector<Violation> violations(const TrainConfig& config) {
  std::vector<Violation> all = engine_violations(config);
  Rules rules;
  check_run(config, rules);
  check_corpus(config, rules);
  check_distill(config, rules);
  check_schedule(config.schedule, config.run.steps, rules);
  check_faults(config.faults, config.grid, rules);
  for (Violation& broken : rules.take()) all.push_back(std::move(broken));
  return all;
}

void validate(const TrainConfig& config) {
  std::string message;
  for (const Violation& broken : violations(config)) {
    if (!message.empty()) message += "\n";
    for (std::size_t i = 0; i < broken.keys.size(); ++i)
      message += (i ? ", " : "") + broken.keys[i];
    message += ": " + broken.rule;
  }
  require(message.empty(), ErrorKind::config, message);
}

}  // namespace fathom::train
