#include "launch/options/generate.h"

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/log.h"
#include "core/stop_signal.h"
#include "core/timer.h"
#include "data_tools/text/prompt_template.h"
#include "generate/generator.h"
#include "launch/backend_choice.h"
#include "launch/commands/commands.h"
#include "launch/commands/exit_compare.h"
#include "launch/commands/source.h"
#include "launch/session.h"
#include "launch/watched_world.h"

namespace fathom::launch {
namespace {

// The prompt file as rank 0 sees it: only that rank has the launcher's standard input. Collective.
std::string read_prompt_file(comm::Communicator& world, const std::string& name) {
  std::ostringstream text;
  if (world.rank() == 0) {
    std::ifstream file;
    if (name != "-") file.open(name);
    std::istream& in = name == "-" ? std::cin : file;
    require(static_cast<bool>(in), ErrorKind::io, name, ": cannot be read");
    for (std::string line; std::getline(in, line);) text << line << "\n";
  }
  return world.broadcast_text(text.str(), 0);
}

std::vector<std::string> read_prompts(comm::Communicator& world,
                                      const options::GenerateRequest& request) {
  if (!request.prompt.empty()) return {request.prompt};
  std::istringstream text(read_prompt_file(world, request.prompt_file));
  std::vector<std::string> prompts;
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) prompts.push_back(line);
  require(!prompts.empty(), ErrorKind::data, request.prompt_file, ": holds no prompt");
  return prompts;
}

// The ids of a prompt and where a chat template would end the answer.
struct PromptEncoder {
  PromptEncoder(const options::GenerateRequest& request, const data::Tokenizer& model_tokenizer)
      : tokenizer(model_tokenizer) {
    if (!request.chat) return;
    std::optional<std::string> system;
    if (!request.system.empty()) system = request.system;
    chat.emplace("auto", tokenizer, system);
  }

  std::vector<std::int32_t> encode(const std::string& text) const {
    if (chat) return chat->encode_prompt(std::vector<data_tools::Message>{{"user", text}});
    std::vector<std::int32_t> ids(tokenizer.prefix_ids().begin(), tokenizer.prefix_ids().end());
    const data::Encoding encoding = tokenizer.encode(text);
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
    return ids;
  }

  const data::Tokenizer& tokenizer;
  std::optional<data_tools::PromptTemplate> chat;
};

generate::GeneratorOptions generator_options(const options::GenerateRequest& request,
                                             const model::ModelSpec& spec,
                                             const PromptEncoder& encoder) {
  generate::GeneratorOptions result;
  result.sampling = request.sampling.with_seed(request.seed);
  result.vocab = encoder.tokenizer.vocab_size();
  result.max_new = request.sampling.max_new;
  result.batch = request.batch;
  result.stoppable = true;
  result.exit = request.exit;
  if (!request.ignore_eos) {
    result.stop_ids = spec.eos_ids;
    if (encoder.chat) result.stop_ids.push_back(encoder.chat->end_id());
  }
  return result;
}

void print_line(const std::string& prompt, const generate::Continuation& result,
                const data::Tokenizer& tokenizer) {
  double logprob = 0;
  for (const float value : result.logprobs) logprob += value;
  const nlohmann::json json = {{"prompt", prompt},
                               {"text", tokenizer.decode(result.ids, true)},
                               {"tokens", result.ids.size()},
                               {"logprob", logprob}};
  std::cout << json.dump() << "\n";
}

void print(const options::GenerateRequest& request, const std::vector<std::string>& prompts,
           const std::vector<generate::Continuation>& results, const data::Tokenizer& tokenizer) {
  if (request.stream) {
    std::cout << std::endl;
    return;
  }
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (prompts.size() == 1) {
      std::cout << tokenizer.decode(results[i].ids, true) << "\n";
    } else {
      print_line(prompts[i], results[i], tokenizer);
    }
  }
}

int run(comm::MpiSession& session, const options::GenerateRequest& request,
        const SourcePlan& source) {
  const auto device = open_device(session, device_request(request.ranks));
  WatchedWorld watched = watch_calls(session, *device, request.ranks.watchdog_seconds);
  comm::ProcessGrid grid(watched.world(), {.dp = 1, .pp = request.ranks.pp, .tp = request.ranks.tp},
                         *device);
  const auto tokenizer = data::Tokenizer::load(source.tokenizer);
  require(tokenizer->vocab_size() <= source.plan.student.vocab, ErrorKind::data,
          source.tokenizer.string(), ": ", tokenizer->vocab_size(), " ids for a model of ",
          source.plan.student.vocab);
  const PromptEncoder encoder(request, *tokenizer);
  const std::vector<std::string> texts = read_prompts(session.world(), request);
  std::vector<generate::Prompt> prompts;
  for (std::size_t i = 0; i < texts.size(); ++i) prompts.push_back({encoder.encode(texts[i]), i});

  train::Engine engine(*device, grid, source.config, source.plan, false);
  load_source(engine, source);
  generate::GeneratorOptions options = generator_options(request, source.plan.student, encoder);
  options.vote = engine.vote();
  generate::Generator generator(engine.student(), grid, options);
  const bool speaks = session.world().rank() == 0;
  std::size_t produced = 0, streamed = 0;
  const auto stream = [&](std::size_t prompt, const generate::Choice& choice) {
    ++produced;
    if (!request.stream || !speaks) return;
    if (prompt != streamed) std::cout << "\n";
    streamed = prompt;
    if (!tokenizer->is_special(choice.id))
      std::cout << tokenizer->token_bytes(choice.id) << std::flush;
  };
  const Timer timer;
  const auto results = generator.generate(prompts, stream);
  const double seconds = timer.seconds();
  if (speaks) print(request, texts, results, *tokenizer);
  log_info(produced, " tokens in ", seconds, " s: ", static_cast<double>(produced) / seconds,
           " tokens/s, prompts included");
  const std::string exits = generator.exit_counts().text(engine.student().spec());
  if (!exits.empty()) log_info("exits: ", exits);
  if (request.exit_compare) compare_with_all_layers(engine, options, prompts);
  return 0;
}

}  // namespace

int generate_command(const Arguments& arguments) {
  const options::GenerateRequest request = options::parse_generate(arguments);
  if (request.reply) {
    std::cout << *request.reply;
    return 0;
  }
  choose_backend(request.ranks.device, request.ranks.precision);
  catch_stop_signals();
  const SourcePlan source = open_source(request.source, request.ranks);
  generate::check(request.exit, source.plan.mode ? &*source.plan.mode : nullptr);
  return run_distributed(request.ranks.tp * request.ranks.pp, request.ranks.watchdog_seconds,
                         [&](comm::MpiSession& session) { return run(session, request, source); });
}

}  // namespace fathom::launch
