#include <limits>

#include "launch/options/train.h"
#include "launch/options/train_tables.h"

namespace fathom::options {
namespace {

constexpr double any_int = std::numeric_limits<int>::max();
constexpr double max_axis = 65536;
/// A file may move between two runs: a checkpoint knows its content by fingerprint, not by path.
constexpr OnResume moved_file = OnResume::free;

void describe_model(OptionTable& t, train::ModelConfig& c) {
  t.section("model", "The model that is trained");
  t.add("path", c.path,
        {.help = "Hugging Face folder (config.json and safetensors) to start from.",
         .unit = "folder",
         .on_resume = moved_file});
  t.add("config", c.config,
        {.help = "Hugging Face config.json of a model with random weights.",
         .unit = "file",
         .on_resume = moved_file});
  t.add("init", c.init,
        {.help = "Where the first weights come from: model.path, random numbers after "
                 "model.config, or chosen layers of the teacher."});
  t.add("teacher_layers", c.teacher_layers,
        {.help = "Teacher layers, counted from 0, that become the student's; every:N takes 0, N, "
                 "2N and so on."});
  t.add("freeze", c.freeze,
        {.help = "Parameters that stay as they are, by shell patterns of their names, such as "
                 "model.embed*,*norm*."});
  t.add("frozen_dtype", c.frozen_dtype, {.help = "Storage of frozen weights."});
}

void describe_teacher(OptionTable& t, train::TeacherConfig& c) {
  t.section("teacher", "The model to distil from; never trained");
  t.add("path", c.path,
        {.help = "Hugging Face folder of the teacher; empty trains without one.",
         .unit = "folder",
         .on_resume = moved_file});
  t.add("dtype", c.dtype, {.help = "Storage of the teacher's weights."});
}

void describe_data(OptionTable& t, train::DataConfig& c) {
  t.section("data", "Token files, as `fathom tokenize` writes them", OnResume::data);
  t.add("train", c.train,
        {.help = "Records to train on.", .unit = "tokens.h5 file", .on_resume = moved_file});
  t.add("eval", c.eval,
        {.help = "Held-out records; empty evaluates nothing.",
         .unit = "tokens.h5 file",
         .on_resume = moved_file});
  t.add("corpus", c.corpus,
        {.help = "Records for a cross-entropy beside distillation, such as a share of the "
                 "pre-training text; empty adds none.",
         .unit = "tokens.h5 file",
         .on_resume = moved_file});
  t.add("context", c.context,
        {.help = "Longest record, prompt included; 0 takes what the model allows.",
         .unit = "tokens",
         .range = at_least(0)});
  t.add("overlong", c.overlong,
        {.help = "What happens to a longer record: stop with an error, cut its end, or leave it "
                 "out."});
  t.add("any_tokenizer", c.any_tokenizer,
        {.help = "Take token files that another tokenizer made than the one in the model's folder, "
                 "for those that give the same ids.",
         .on_resume = OnResume::free});
}

void describe_spans(OptionTable& t, train::SpansConfig& c) {
  t.section("spans", "Words and phrases of the training text, for objectives that compare them");
  t.add("train", c.train,
        {.help = "Spans of data.train, as `fathom spans build` writes them; empty finds them while "
                 "training.",
         .unit = "spans.h5 file",
         .on_resume = moved_file});
  t.add("model", c.model,
        {.help = "Model of the span extractor (data_tools/fetch_span_model.sh makes it); needed "
                 "without spans.train, for text that the student writes, and for pairs.",
         .unit = "file",
         .on_resume = moved_file});
  t.add("words", c.words, {.help = "Words of the whole text, or only those inside phrases."});
  t.add("vp", c.vp,
        {.help = "Verb phrases: AUX* ADV* VERB+ ADV* (pattern), or the verb with its auxiliaries "
                 "in the dependency tree (group)."});
  t.add("threads", c.threads,
        {.help = "Threads of each rank that find spans beside the model's own; 0 finds them when "
                 "they are needed.",
         .range = within(0, 4096),
         .on_resume = OnResume::free});
}

void describe_batch(OptionTable& t, train::BatchConfig& c) {
  t.section("batch", "How much one optimizer step sees, the same on every grid", OnResume::data);
  t.add("micro_batch", c.micro_batch,
        {.help = "Sequences that go through the model together.",
         .unit = "sequences",
         .range = within(1, any_int)});
  t.add("micro_batches", c.micro_batches,
        {.help = "Micro-batches of one optimizer step, over all data-parallel ranks together.",
         .range = within(1, any_int)});
  t.add("corpus_micro_batches", c.corpus_micro_batches,
        {.help = "Micro-batches of data.corpus in one optimizer step, beside those.",
         .range = within(1, any_int)});
}

void describe_grid(OptionTable& t, train::GridConfig& c) {
  t.section("grid", "Process grid: tp x pp x dp ranks, tensor axis fastest", OnResume::free);
  t.add("tp", c.tp,
        {.help = "Ranks that share each matrix.", .unit = "ranks", .range = within(1, max_axis)});
  t.add("pp", c.pp, {.help = "Pipeline stages.", .unit = "ranks", .range = within(1, max_axis)});
  t.add("dp", c.dp,
        {.help = "Replicas that share the micro-batches of a step.",
         .unit = "ranks",
         .range = within(1, max_axis)});
  t.add(
      "layers", c.layers,
      {.help =
           "Layers on each stage, such as 5,5,6,4; empty balances the work of student, teacher and "
           "heads, and keeps layers that are compared on one stage.",
       .range = at_least(1)});
  t.add("teacher_layers", c.teacher_layers,
        {.help = "Teacher layers on each stage; empty likewise.", .range = at_least(1)});
}

void describe_loss(OptionTable& t, train::LossConfig& c) {
  t.section("loss", "What is minimised; means are over the whole step");
  t.add("ce_weight", c.ce_weight,
        {.help = "Weight of the cross-entropy with the labels.", .range = at_least(0)});
  t.add("kd_weight", c.kd_weight,
        {.help = "Weight of the divergence of the student's next-token distribution from the "
                 "teacher's.",
         .range = at_least(0)});
  t.add("divergence", c.divergence,
        {.help = "With p the teacher and q the student: KL(p|q), KL(q|p), the generalised "
                 "Jensen-Shannon divergence (beta), total variation, KL(p|alpha p + (1 - alpha) "
                 "q), or KL(q|(1 - alpha) p + alpha q)."});
  t.add("alpha", c.alpha,
        {.help = "Skew of the skewed divergences, between 0 and 1.", .range = within(0, 1)});
  t.add("beta", c.beta,
        {.help = "Share of the teacher in the mixture of js; 0 is forward_kl and 1 reverse_kl.",
         .range = within(0, 1)});
  t.add("detach_mixture", c.detach_mixture,
        {.help = "In skew_reverse_kl, send no gradient through the mixture's student part."});
  t.add("corpus_weight", c.corpus_weight,
        {.help = "Weight of the cross-entropy on data.corpus, a mean over its own tokens.",
         .range = at_least(0)});
  t.add("rejected_weight", c.rejected_weight,
        {.help = "With pairs: weight of the skewed reverse KL on the student's answers; the skewed "
                 "KL on the teacher's has 2 minus this.",
         .range = within(0, 2)});
  t.add("temperature", c.temperature,
        {.help = "Divides both models' logits in the divergence.", .range = above(0)});
  t.add("scale_t2", c.scale_t2,
        {.help = "Multiply the divergence by the square of the temperature."});
  t.add("on_prompt", c.on_prompt,
        {.help = "Learn the prompts of data.train as well as the responses; data.eval is scored on "
                 "its responses either way."});
  t.add("normalise", c.normalise,
        {.help = "What the losses are a mean of: all supervised tokens, or all sequences, each "
                 "with the mean of its tokens."});
  t.add("vocab", c.vocab,
        {.help = "Entries of the vocabulary that count, where the heads are padded; 0 takes all "
                 "that both models have.",
         .unit = "entries",
         .range = at_least(0)});
  t.add("chunk_rows", c.chunk_rows,
        {.help = "Rows of logits that exist at a time; 0 chooses from the vocabulary.",
         .unit = "tokens",
         .range = at_least(0)});
}

constexpr const char* student_layers_help =
    "Key layers of the student, such as 6,9,12: 0 is the embedding, i the output of block i, the "
    "last one after the final norm; empty takes a half, three quarters and the last.";
constexpr const char* teacher_layers_help =
    "The teacher's layer for each of them; empty takes the same share of its depth.";

void describe_mta(OptionTable& t, train::MtaConfig& c) {
  t.section("mta",
            "Multi-granular trajectory alignment: words and phrases of the text as the "
            "teacher's layers see them");
  t.add("enabled", c.enabled, {.help = "Add the alignment to the loss; needs a teacher."});
  t.add("student_layers", c.student_layers, {.help = student_layers_help});
  t.add("teacher_layers", c.teacher_layers, {.help = teacher_layers_help});
  t.add("granularity", c.granularity,
        {.help = "Spans of the key layers: words on the lower ones and phrases on the upper, or "
                 "the same on all."});
  t.add("words", c.words,
        {.help = "With adaptive, how many of the lower key layers see words; 0 takes a third, "
                 "rounded up.",
         .unit = "layers",
         .range = at_least(0)});
  t.add("dsa_weight", c.dsa_weight,
        {.help = "Weight of the dynamic structural alignment, the squared difference of the "
                 "cosines between spans; 0 leaves it out.",
         .range = at_least(0)});
  t.add("hid_weight", c.hid_weight,
        {.help = "Weight of the hidden alignment, 1 - cosine of a token's projected state and the "
                 "teacher's; 0 leaves it out.",
         .range = at_least(0)});
  t.add("normalise", c.normalise,
        {.help = "What the weighted squares of a sample are divided by: the sample's sum of pair "
                 "weights, nothing, or the sum of the whole micro-batch."});
  t.add("span_region", c.span_region,
        {.help = "Spans of prompt and response, or of the response only."});
  t.add("projector_lr", c.projector_lr,
        {.help = "Peak learning rate of the projectors of the hidden alignment; 0 takes optim.lr.",
         .range = at_least(0)});
}

void describe_fdd(OptionTable& t, train::FddConfig& c) {
  t.section("fdd",
            "Feature dynamics distillation: how next-token distributions develop over the "
            "layers");
  t.add("enabled", c.enabled, {.help = "Add both terms to the loss; needs a teacher."});
  t.add("student_layers", c.student_layers, {.help = student_layers_help});
  t.add("teacher_layers", c.teacher_layers, {.help = teacher_layers_help});
  t.add("trajectory_weight", c.trajectory_weight,
        {.help = "Weight of KL(teacher || student) at the key layers; 0 leaves it out.",
         .range = at_least(0)});
  t.add("derivative_weight", c.derivative_weight,
        {.help = "Weight of 1 - cosine of the models' changes of log-probabilities from one key "
                 "layer to the next; 0 leaves it out.",
         .range = at_least(0)});
  t.add("temperature", c.temperature,
        {.help = "Divides both models' logits in the trajectory.", .range = above(0)});
}

void describe_mode(OptionTable& t, train::ModeConfig& c) {
  t.section("mode",
            "Mixture of depths experts: the last k layers vote on the next token, weighed by a "
            "router for each token");
  t.add("enabled", c.enabled,
        {.help = "Let them vote, in training, evaluation and generation; trains their norms, the "
                 "model's final norm among them, and the router, whatever else is frozen."});
  t.add("k", c.spec.k,
        {.help = "Late layers that vote.", .unit = "layers", .range = within(1, any_int)});
  t.add("top_k", c.spec.top_k,
        {.help = "Layers whose router scores are kept for a token, the largest ones; 0 keeps all.",
         .unit = "layers",
         .range = at_least(0)});
  t.add("lambda", c.lambda,
        {.help = "Weight of the distillation of the last layer into the other late layers; 0 "
                 "leaves it out, and then the head runs once. With k = 1 there is no other layer.",
         .range = at_least(0)});
  t.add("temperature", c.temperature,
        {.help = "Divides both layers' logits in the distillation; it is not multiplied by its "
                 "square.",
         .range = above(0)});
  t.add("router", c.spec.router,
        {.help = "A softmax of a linear layer on the state before the late layers, or 1/k each."});
  t.add("router_input", c.spec.router_input,
        {.help = "What that layer reads: the state itself, or the state divided by its root mean "
                 "square, for models where a few tokens have huge states."});
  t.add("router_init", c.router_init,
        {.help = "The weights that it starts with, whatever the token: 0.9 for the last layer, or "
                 "1/k each."});
  t.add("norms", c.spec.norms,
        {.help = "A trained norm behind each late layer, which starts as the final norm; the final "
                 "norm behind all of them; or none but that behind the last one."});
  t.add("light", c.light, {.help = "Leave the last k layers without an adapter."});
  t.add("shrink_below", c.shrink.below,
        {.help = "Take the vote from the earliest late layer once its mean router weight stays "
                 "below this; k then is one less, in checkpoints and exports too. 0 never does.",
         .range = within(0, 1)});
  t.add("shrink_steps", c.shrink.steps,
        {.help = "For how many steps in a row it must stay below.",
         .unit = "steps",
         .range = within(1, any_int)});
  t.add("shrink_least", c.shrink.least,
        {.help = "Late layers that keep their vote whatever their weights.",
         .unit = "layers",
         .range = within(2, any_int)});
}

void describe_distill(OptionTable& t, train::DistillConfig& c) {
  t.section("distill", "The text that the student is distilled on");
  t.add("method", c.method,
        {.help = "The training set alone (off_policy), with a fixed probability the student's own "
                 "answers to its prompts (mixed: GKD, ImitKD), its own answers the more, the worse "
                 "it does on data.eval (adaptive: DistiLLM), or pairs of the teacher's and the "
                 "student's answers (contrastive: DistiLLM-2)."});
  t.add("lambda", c.lambda,
        {.help = "With mixed: probability that a micro-batch is the student's own text.",
         .range = within(0, 1)});
  t.add("init_threshold", c.init_threshold,
        {.help = "With adaptive: that probability at the start; it rises by 0.1 at a time.",
         .range = within(0, 1)});
  t.add("pairs", c.pairs,
        {.help = "With contrastive: the pairs, as `fathom pairs` writes them.",
         .unit = "folder",
         .on_resume = moved_file});
  t.add("curriculum", c.curriculum,
        {.help = "With contrastive: an alpha of its own for each answer, from 0.01 to loss.alpha: "
                 "the smaller, the closer both models' probabilities of it are. The first step "
                 "has loss.alpha, and its pairs say what is close."});
  t.add("epsilon", c.epsilon,
        {.help = "With adaptive: it rises when the loss on data.eval has grown by this much.",
         .unit = "nats",
         .range = at_least(0)});
  t.add("replay", c.replay,
        {.help = "With adaptive: how the share that is generated anew, and not replayed, changes "
                 "over the run."});
  t.add("capacity", c.capacity,
        {.help = "With adaptive: newest answers that are kept for replay, of all ranks together.",
         .unit = "answers",
         .range = within(1, any_int)});
  t.add("temperature", c.temperature,
        {.help = "Divides the student's logits when it answers; 0 takes the most likely token.",
         .range = at_least(0)});
  t.add("top_p", c.top_p,
        {.help = "Sample among the fewest tokens with this much probability; 1 keeps all.",
         .range = {.lowest = 0, .highest = 1, .open_below = true}});
  t.add("top_k", c.top_k,
        {.help = "Sample among the k most likely tokens; 0 keeps all.",
         .unit = "tokens",
         .range = at_least(0)});
  t.add("no_repeat_ngram", c.no_repeat_ngram,
        {.help = "Never repeat a run of this many tokens; 0 allows it.",
         .unit = "tokens",
         .range = at_least(0)});
  t.add("max_new", c.max_new,
        {.help = "Longest answer; data.context bounds it as well.",
         .unit = "tokens",
         .range = within(1, any_int)});
  t.add("batch", c.batch,
        {.help = "Answers that each replica decodes together.",
         .unit = "sequences",
         .range = within(1, any_int),
         .on_resume = OnResume::free});
}

void describe_optim(OptionTable& t, train::OptimConfig& c) {
  t.section("optim", "AdamW");
  t.add("lr", c.lr, {.help = "Peak learning rate.", .range = above(0)});
  t.add("beta1", c.beta1, {.help = "Decay of the first moment.", .range = from_below(0, 1)});
  t.add("beta2", c.beta2, {.help = "Decay of the second moment.", .range = from_below(0, 1)});
  t.add("eps", c.eps, {.help = "Added to the root of the second moment.", .range = above(0)});
  t.add("weight_decay", c.weight_decay,
        {.help = "Decoupled weight decay, multiplied by the learning rate.", .range = at_least(0)});
  t.add("decay", c.decay,
        {.help = "What decays: parameters of two or more dims, or every parameter."});
  t.add("clip", c.clip,
        {.help = "Largest global gradient norm; 0 does not clip.", .range = at_least(0)});
}

void describe_schedule(OptionTable& t, train::ScheduleConfig& c) {
  t.section("schedule", "The learning rate over the steps");
  t.add("kind", c.kind,
        {.help = "After the warm-up: constant, linear or cosine decay, or wsd (stable, then a "
                 "cosine decay at the end of the run)."});
  t.add("warmup_steps", c.warmup_steps,
        {.help = "Linear rise from 0 to the peak.", .unit = "steps", .range = at_least(0)});
  t.add("decay_steps", c.decay_steps,
        {.help = "Length of the decay; 0 lasts to the end of the run (wsd needs a length).",
         .unit = "steps",
         .range = at_least(0)});
  t.add("min_lr_ratio", c.min_lr_ratio,
        {.help = "What the decay ends at, as a share of the peak.", .range = within(0, 1)});
}

void describe_rest(OptionTable& t, train::TrainConfig& config) {
  train::DropoutConfig& dropout = config.dropout;
  t.section("dropout", "Probabilities; the model's own config.json is not consulted");
  t.add("embedding", dropout.embedding, {.help = "On the embeddings.", .range = from_below(0, 1)});
  t.add("residual", dropout.residual,
        {.help = "On what each block adds to the residual stream.", .range = from_below(0, 1)});
  t.add("attention", dropout.attention,
        {.help = "On attention weights.", .range = from_below(0, 1)});

  t.section("memory", "Trading time for memory", OnResume::free);
  t.add("recompute", config.memory.recompute,
        {.help = "What backward computes again: nothing, what is cheap (norms, activations), or "
                 "whole blocks from their inputs."});

  train::LogConfig& log = config.log;
  t.section("log", "Where metrics go", OnResume::free);
  t.add("jsonl", log.jsonl, {.help = "Write every step to run.dir/metrics.jsonl."});
  t.add("tensorboard", log.tensorboard,
        {.help = "Write TensorBoard event files to run.dir/tensorboard."});
  t.add("progress", log.progress,
        {.help = "The live line: on a terminal only (auto), always, or never."});

  train::FaultsConfig& faults = config.faults;
  t.section("faults", "For tests: break one rank on purpose, once", OnResume::free);
  t.add("kind", faults.kind,
        {.help = "Stop the process (freeze), let its work sleep (stall), kill it, send it a signal "
                 "(usr1, term), make its loss NaN, let a stage of a save fail (failed_write), keep "
                 "its files from growing (full_disk), or delay its messages to the next and "
                 "previous stage (slow_link)."});
  t.add("rank", faults.rank, {.help = "The rank that it happens to.", .range = at_least(0)});
  t.add("step", faults.step,
        {.help = "The step, as the log counts it, in whose making, evaluation or save it happens; "
                 "0 is before the first.",
         .range = at_least(0)});
  t.add("action", faults.action,
        {.help = "Before which action: load, batches, generate, recv_bundle, forward, send_bundle, "
                 "finish_bundle, recv_grad, backward, send_grad, finish_grad, update, "
                 "evaluate, save, finalize; or at a stage of a save, as checkpoints/FORMAT.md "
                 "lists them.",
         .unit = "action"});
  t.add("seconds", faults.seconds,
        {.help = "Length of a stall, or delay of each message.",
         .unit = "seconds",
         .range = at_least(0)});
}

}  // namespace

void describe_train(OptionTable& table, train::TrainConfig& config) {
  describe_run(table, config.run);
  describe_model(table, config.model);
  describe_adapter(table, config.adapter);
  describe_moc(table, config.moc);
  describe_teacher(table, config.teacher);
  describe_data(table, config.data);
  describe_spans(table, config.spans);
  describe_batch(table, config.batch);
  describe_grid(table, config.grid);
  describe_loss(table, config.loss);
  describe_mta(table, config.mta);
  describe_fdd(table, config.fdd);
  describe_mode(table, config.mode);
  describe_distill(table, config.distill);
  describe_optim(table, config.optim);
  describe_schedule(table, config.schedule);
  describe_rest(table, config);
}

}  // namespace fathom::options
