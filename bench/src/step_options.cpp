#include "bench/src/step_options.h"

#include <boost/program_options.hpp>
#include <iostream>

#include "launch/options/train.h"

namespace fathom::bench {
namespace {

namespace po = boost::program_options;

// Options that go by another name than in a recipe: most are those of the peers as well.
struct Texts {
  std::string student, teacher_dtype = "f32", recompute = "cheap", divergence = "forward_kl",
                       method = "plain";
};

po::options_description describe(StepOptions& options, Texts& texts) {
  train::TrainConfig& config = options.config;
  po::options_description table("bench_step [--section.key=value of a recipe ...]");
  auto add = table.add_options();
  const auto text = [](std::string* to) { return po::value(to)->default_value(*to); };
  const auto number = [](int* to) { return po::value(to)->default_value(*to); };
  add("help", "show this and stop");
  add("student", po::value(&texts.student)->required(), "folder with the student's config.json");
  add("teacher", po::value(&config.teacher.path), "the same of a frozen teacher: distillation");
  add("teacher-dtype", text(&texts.teacher_dtype), "f32 or bf16");
  add("divergence", text(&texts.divergence), "from the teacher");
  add("method", text(&texts.method), "losses on hidden states beside it: plain (none), mta or fdd");
  add("batch", number(&config.batch.micro_batch), "sequences of a micro-batch");
  add("micro-batches", number(&config.batch.micro_batches), "of a step, over all ranks");
  add("length", po::value(&options.length)->default_value(options.length), "tokens of a sequence");
  add("tp", number(&config.grid.tp), "tensor ranks");
  add("pp", number(&config.grid.pp), "pipeline stages");
  add("dp", number(&config.grid.dp), "data-parallel ranks");
  add("chunk-rows", number(&config.loss.chunk_rows), "rows of logits held at a time; 0: automatic");
  add("recompute", text(&texts.recompute), "none, cheap or block");
  add("warmup", number(&options.warmup), "steps before the timed ones");
  add("steps", number(&options.steps), "timed steps of a report");
  add("serve", po::bool_switch(&options.serve), "report once for each line of standard input");
  return table;
}

// "--adapter.kind=lora" and the like: whatever a recipe may say of the work.
void assign(options::OptionTable& recipe, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    require(word.starts_with("--") && equals != std::string::npos, ErrorKind::usage, word,
            ": neither an option of bench_step nor --section.key=value of a recipe");
    recipe.assign(word.substr(2, equals - 2), word.substr(equals + 1), "command line");
  }
}

}  // namespace

std::optional<StepOptions> parse_step_options(int argc, char** argv) {
  StepOptions options;
  train::TrainConfig& config = options.config;
  config.model.init = train::Init::random;
  config.batch = {.micro_batch = 4, .micro_batches = 1};
  Texts texts;
  const po::options_description table = describe(options, texts);
  const po::parsed_options parsed =
      po::command_line_parser(argc, argv).options(table).allow_unregistered().run();
  po::variables_map values;
  po::store(parsed, values);
  if (values.count("help") > 0) {
    std::cout << table;
    return std::nullopt;
  }
  po::notify(values);
  options::OptionTable recipe;
  options::describe_train(recipe, config);
  config.model.config = texts.student + "/config.json";
  if (!config.teacher.path.empty()) config.loss.ce_weight = config.loss.kd_weight = 0.5;
  require(texts.method == "plain" || texts.method == "mta" || texts.method == "fdd",
          ErrorKind::usage, "--method ", texts.method, ": plain, mta or fdd");
  config.mta.enabled = texts.method == "mta";
  config.fdd.enabled = texts.method == "fdd";
  if (config.mta.enabled) config.spans.model = "invented";  // by invented_spans.h
  assign(recipe, {"--teacher.dtype=" + texts.teacher_dtype, "--memory.recompute=" + texts.recompute,
                  "--loss.divergence=" + texts.divergence});
  assign(recipe, po::collect_unrecognized(parsed.options, po::include_positional));
  require(options.steps > 0, ErrorKind::usage, "--steps ", options.steps, ": at least 1");
  options::refuse(train::engine_violations(config), recipe);
  return options;
}

}  // namespace fathom::bench
