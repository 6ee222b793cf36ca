#include "generate/generator.h"

#include <algorithm>
#include <optional>

#include "comm/stop_vote.h"
#include "core/timer.h"
#include "generate/exit_decoder.h"
#include "generate/stage_decoder.h"

namespace fathom::generate {
namespace {

// One call of Generator::generate(): steps of the groups in turn, each through this rank's stage.
class Session {
 public:
  Session(comm::Communicator& pp, Decoder& decoder, const TokenChooser& chooser,
          const std::vector<Prompt>& prompts, const RosterLimits& limits,
          const TokenCallback& on_token, const EndCallback& on_end)
      : decoder_(decoder),
        chooser_(chooser),
        on_token_(on_token),
        on_end_(on_end),
        roster_(prompts, limits),
        link_(pp, limits.groups),
        on_their_way_(static_cast<std::size_t>(limits.groups)) {}

  /// Continuations of all prompts; nothing when `stop` said so first, which is asked every
  /// kRoundsBetweenVotes rounds. No message is on its way afterwards.
  std::optional<std::vector<Continuation>> run(const std::function<bool()>& stop) {
    for (std::int64_t round = 0; !roster_.finished(); ++round) {
      if (stop && round % kRoundsBetweenVotes == 0 && stop()) {
        drain();
        return std::nullopt;
      }
      run_round();
    }
    return roster_.take_results();
  }

  const DecodeTime& decode_time() const { return decode_time_; }

 private:
  void run_round() {
    const Timer timer;
    std::int64_t started = 0;
    bool prompts = false;
    for (std::size_t group = 0; group < on_their_way_.size(); ++group) {
      Step& step = on_their_way_[group];
      prompts = prompts || !step.prompt_slots.empty();
      if (!step.empty()) finish(static_cast<int>(group), step);
      step = roster_.plan(static_cast<int>(group));
      prompts = prompts || !step.prompt_slots.empty();
      started += static_cast<std::int64_t>(step.prompts.size());
      if (!step.empty()) start(static_cast<int>(group), step);
    }
    if (!prompts && started > 0) decode_time_ += {timer.seconds(), started};
  }

  // Takes in the steps on their way, so that no rank is left with a message that nobody receives.
  void drain() {
    for (std::size_t group = 0; group < on_their_way_.size(); ++group)
      if (const Step& step = on_their_way_[group]; !step.empty())
        link_.take_choices(static_cast<int>(group), step.prompts.size());
  }

  void start(int group, const Step& step) {
    const Tensor states = decoder_.run(group, step, link_);
    if (!link_.is_last()) return;
    std::vector<SequenceView> sequences;
    for (const std::size_t prompt : step.prompts)
      sequences.push_back({roster_.sample(prompt), roster_.ids(prompt)});
    link_.send_choices(group, chooser_.choose(states, sequences));
  }

  void finish(int group, const Step& step) {
    const std::vector<Choice> choices = link_.take_choices(group, step.prompts.size());
    roster_.apply(step, choices);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const std::size_t prompt = step.prompts[i];
      if (on_token_) on_token_(prompt, choices[i]);
      if (on_end_ && roster_.ended(prompt)) on_end_(prompt, roster_.ids(prompt));
    }
  }

  Decoder& decoder_;
  const TokenChooser& chooser_;
  const TokenCallback& on_token_;
  const EndCallback& on_end_;
  Roster roster_;
  StageLink link_;
  std::vector<Step> on_their_way_;  // of each group, the step whose tokens are not yet known
  DecodeTime decode_time_;
};

}  // namespace

Generator::Generator(const model::Stage& stage, comm::ProcessGrid& grid, GeneratorOptions options)
    : stage_(stage),
      grid_(grid),
      options_(std::move(options)),
      chooser_(stage, options_.sampling, options_.vocab) {
  const auto at_least_one = [](const char* name, std::int64_t value) {
    require(value >= 1, ErrorKind::config, name, " = ", value, ": at least 1 is needed");
  };
  at_least_one("max_new", options_.max_new);
  at_least_one("batch", options_.batch);
  at_least_one("prompt_rows", options_.prompt_rows);
  generate::check(options_.exit, options_.vote != nullptr ? &options_.vote->spec() : nullptr);
  if (options_.exit.early())
    exit_counts_ = ExitCounts(static_cast<std::size_t>(options_.vote->spec().k));
}

std::int64_t Generator::context() const {
  const std::int64_t most = stage_.spec().max_positions;
  return options_.context > 0 ? std::min(options_.context, most) : most;
}

void Generator::check(const std::vector<Prompt>& prompts) const {
  const model::ModelSpec& spec = stage_.spec();
  const std::int64_t context = this->context();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<std::int32_t>& ids = prompts[i].ids;
    require(!ids.empty(), ErrorKind::data, "prompt ", i + 1, " has no tokens");
    require(static_cast<std::int64_t>(ids.size()) < context, ErrorKind::data, "prompt ", i + 1,
            " has ", ids.size(), " tokens, which leaves no room in a context of ", context);
    for (const std::int32_t id : ids)
      require(id >= 0 && id < spec.vocab, ErrorKind::data, "prompt ", i + 1, " has the id ", id,
              "; the model's vocabulary has ", spec.vocab, " entries");
  }
}

RosterLimits Generator::limits(const std::vector<Prompt>& prompts) const {
  RosterLimits limits;
  limits.max_new = options_.max_new;
  limits.context = context();
  limits.prompt_rows = options_.prompt_rows;
  limits.stop_ids = options_.stop_ids;
  limits.slots = std::min(options_.batch, static_cast<std::int64_t>(prompts.size()));
  limits.groups = static_cast<int>(std::min<std::int64_t>(grid_.shape().pp, limits.slots));
  for (const Prompt& prompt : prompts) {
    const auto length = static_cast<std::int64_t>(prompt.ids.size());
    limits.capacity =
        std::max(limits.capacity, std::min(length + options_.max_new, limits.context));
  }
  return limits;
}

std::vector<Continuation> Generator::generate(const std::vector<Prompt>& prompts,
                                              const TokenCallback& on_token,
                                              const EndCallback& on_end) {
  check(prompts);
  int signal = 0;
  const auto stop = [&] {
    signal = comm::vote_to_stop(grid_.world(), true).signal;
    return signal != 0;
  };
  std::optional<std::vector<Continuation>> texts(std::in_place);
  if (!prompts.empty())
    texts =
        run(prompts, on_token, on_end, options_.stoppable ? std::function<bool()>(stop) : nullptr);
  if (!texts) throw Stopped{signal};
  if (options_.stoppable) wait_for_replicas();
  return std::move(*texts);
}

std::optional<std::vector<Continuation>> Generator::run(const std::vector<Prompt>& prompts,
                                                        const TokenCallback& on_token,
                                                        const EndCallback& on_end,
                                                        const std::function<bool()>& stop) {
  const RosterLimits limits = this->limits(prompts);
  const auto run_through = [&](Decoder& decoder) {
    Session session(grid_.pp(), decoder, chooser_, prompts, limits, on_token, on_end);
    auto texts = session.run(stop);
    decode_time_ += session.decode_time();
    return texts;
  };
  if (!options_.exit.early()) {
    StageDecoder decoder(stage_, limits.slots, limits.capacity, options_.vote);
    return run_through(decoder);
  }
  ExitDecoder decoder(stage_, grid_.pp(), limits.slots, limits.capacity, *options_.vote,
                      options_.exit);
  auto texts = run_through(decoder);
  if (!texts) return texts;  // all ranks have been told to stop
  ExitCounts counts = decoder.counts();
  counts.sum_over(grid_.pp());
  exit_counts_ += counts;
  return texts;
}

// Replicas do unlike amounts of work: one that is done votes on until all are, or stops with those
// that are not.
void Generator::wait_for_replicas() {
  for (;;) {
    const comm::StopVote agreed = comm::vote_to_stop(grid_.world());
    if (!agreed.busy) return;
    if (agreed.signal != 0) throw Stopped{agreed.signal};
  }
}

}  // namespace fathom::generate
