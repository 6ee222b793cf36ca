#include "launch/options/diagnose_moc.h"

#include <iostream>

#include "comm/launch_environment.h"
#include "core/log.h"
#include "data/batch_plan.h"
#include "data/tokenizers/tokenizer.h"
#include "diagnose/moc/growth.h"
#include "diagnose/moc/jacobian.h"
#include "diagnose/moc/norms.h"
#include "diagnose/moc/routing.h"
#include "diagnose/moc/targets.h"
#include "diagnose/text.h"
#include "launch/backend_choice.h"
#include "launch/commands/diagnose.h"
#include "launch/commands/source.h"
#include "launch/session.h"
#include "train/make_source.h"

namespace fathom::launch {
namespace {

using namespace diagnose::moc;
using options::DiagnoseMocRequest;

void require_one_rank() {
  const auto launch = comm::read_launch_environment();
  const int ranks =
      launch.mpirun_ranks.value_or(launch.launched() ? launch.srun_ranks.value_or(1) : 1);
  require(ranks == 1, ErrorKind::config, "fathom diagnose moc was started with ", ranks,
          " ranks and runs on one: its Jacobians go through the blocks of all stages. It reads the "
          "checkpoint of any grid; start it without mpirun or srun");
}

struct Texts {
  std::vector<data::MicroBatch> batches;
  data::MicroBatch front;  ///< that Jacobians are taken of
};

Texts read_text(const DiagnoseMocRequest& request, const std::filesystem::path& checkpoint,
                const model::ModelSpec& model) {
  const std::int64_t most = model.max_positions;
  require(request.context <= most, ErrorKind::config, "--context ", request.context,
          " is more than the model's ", most, " positions");
  const std::int64_t context = request.context > 0 ? request.context : most;
  const auto folder = std::filesystem::weakly_canonical(checkpoint).parent_path() / "tokenizer";
  if (!request.text.empty()) {
    const auto tokenizer = data::Tokenizer::load(folder);
    std::vector<std::int32_t> ids(tokenizer->prefix_ids().begin(), tokenizer->prefix_ids().end());
    const auto encoded = tokenizer->encode(request.text);
    ids.insert(ids.end(), encoded.ids.begin(), encoded.ids.end());
    const auto text = diagnose::front_of(diagnose::text_batch(ids, model.vocab), context);
    return {{text}, diagnose::front_of(text, request.jacobian_tokens)};
  }
  const auto set = train::open_dataset(
      request.data, {.context = context,
                     .policy = train::Overlong::truncate,
                     .vocab = model.vocab,
                     .tokenizer = train::read_model_tokenizer(folder, request.any_tokenizer)});
  const data::EvalBatches all(*set, request.records, request.records);
  Texts texts{{}, diagnose::front_of(all.micro_batch(0), request.jacobian_tokens)};
  const data::EvalBatches source(*set, request.batch, request.records);
  for (std::int64_t j = 0; j < source.micro_batches(); ++j)
    texts.batches.push_back(source.micro_batch(j));
  return texts;
}

// The run that another one is compared with.
struct Rival {
  Subject subject;
  TargetErrors targets;
  bool routes_alike;  ///< so that choices can be compared one for one
};

std::unique_ptr<Rival> open_rival(Device& device, const DiagnoseMocRequest& request,
                                  const Subject& subject, const Controls& controls) {
  if (request.against.empty()) return nullptr;
  auto rival = std::make_unique<Rival>(Rival{Subject(device, find_checkpoint(request.against)),
                                             TargetErrors(controls, subject.sites()), false});
  const model::ModelSpec &ours = subject.model(), &theirs = rival->subject.model();
  require(ours.layers == theirs.layers && ours.hidden == theirs.hidden &&
              ours.vocab == theirs.vocab && ours.family == theirs.family,
          ErrorKind::config, "--against ", request.against, ": a model of ", theirs.layers,
          " layers and width ", theirs.hidden, "; the run has ", ours.layers, " and ", ours.hidden,
          " and can only be compared with runs of its own model");
  const auto *a = subject.moc(), *b = rival->subject.moc();
  rival->routes_alike = a != nullptr && b != nullptr && a->sites == b->sites &&
                        a->eval_scope == b->eval_scope && a->tokens == b->tokens;
  return rival;
}

void read_through(Subject& subject, const Controls& controls,
                  const std::vector<data::MicroBatch>& batches, Rival* rival,
                  diagnose::Report& report) {
  Growth growth(controls, subject.sites());
  std::optional<RoutingUse> routing;
  if (subject.moc() != nullptr) routing.emplace(subject);
  std::int64_t tokens = 0;
  for (const data::MicroBatch& batch : batches) {
    Passage passage = subject.begin(batch);
    const std::vector<SiteRecord> records = record(subject, passage, rival != nullptr);
    growth.add(passage, records);
    std::optional<Passage> other;
    if (rival != nullptr) {
      rival->targets.add(records, answers_to(rival->subject, batch, records));
      if (rival->routes_alike) {
        other = rival->subject.begin(batch);
        record(rival->subject, *other, false);
      }
    }
    if (routing) routing->add(passage, other ? &*other : nullptr);
    tokens += batch.tokens();
  }
  report.facts.emplace_back("tokens", tokens);
  growth.report(report);
  if (rival != nullptr) rival->targets.report(report);
  if (routing) routing->report(report);
}

void diagnose_on_text(Device& device, const DiagnoseMocRequest& request,
                      const std::filesystem::path& checkpoint, const Controls& controls,
                      diagnose::Report& report) {
  Subject subject(device, checkpoint);
  const Texts texts = read_text(request, checkpoint, subject.model());
  const auto rival = open_rival(device, request, subject, controls);
  read_through(subject, controls, texts.batches, rival.get(), report);
  if (request.probes == 0) return;
  log_info("Jacobians");
  Passage passage = subject.begin(texts.front);
  record(subject, passage, false);
  report_jacobians(subject, passage, controls,
                   {.probes = request.probes, .iterations = request.iterations}, report);
}

int run(comm::MpiSession& session, const DiagnoseMocRequest& request) {
  const auto device = open_device(session, device_request(request.machine));
  const std::filesystem::path checkpoint = find_checkpoint(request.checkpoint);
  const Controls controls = read_controls(checkpoint);
  diagnose::Report report;
  report.facts = {{"checkpoint", checkpoint.string()},
                  {"method", controls.moc ? "mixture of control" : "Parallel Control"},
                  {"rank", controls.rank},
                  {"alpha", controls.alpha}};
  report_norms(controls, report);
  if (request.reads_text()) diagnose_on_text(*device, request, checkpoint, controls, report);
  diagnose::write_report(request.output, report);
  std::cout << diagnose::summary_text(report);
  log_info("wrote ", request.output);
  return report.exit_code();
}

}  // namespace

int diagnose_moc(const options::Arguments& arguments) {
  const DiagnoseMocRequest request = options::parse_diagnose_moc(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  require_one_rank();
  choose_backend(request.machine.device, request.machine.precision);
  return run_distributed(1, 0, [&](comm::MpiSession& session) { return run(session, request); });
}

}  // namespace fathom::launch
