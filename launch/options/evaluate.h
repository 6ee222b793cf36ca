#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/options/command_line.h"
#include "launch/options/exit.h"
#include "launch/options/sampling.h"
#include "launch/options/shared.h"

namespace fathom::options {

/// What decides together at the gates of mixture of control.
enum class RouteScope { stored, sequence, microbatch };

template <>
inline constexpr std::array enum_words<RouteScope> = {
    Word<RouteScope>{"stored", RouteScope::stored},
    Word<RouteScope>{"sequence", RouteScope::sequence},
    Word<RouteScope>{"microbatch", RouteScope::microbatch}};

/// The part of `fathom evaluate` in which the model answers questions.
struct AnswerOptions {
  std::string prompts;             ///< file of questions; empty: none are asked
  std::vector<std::string> tasks;  ///< sets and groups of eval/answer_sets.h; empty: no accuracy
  std::string prompt_template = "auto";
  std::string system;
  int max_prompt = 0;  ///< tokens; 0: what the context leaves beside the answer
  int questions = 0;   ///< from the start of the file, with tasks of each set; 0: all
  SamplingOptions sampling = {.max_new = 256, .temperature = 1.0};
  generate::ExitOptions exit;
  std::vector<int> seeds = {10, 20, 30, 40, 50};
  bool rouge = true;
  std::string answers;        ///< JSON lines to write
  std::string judge;          ///< JSON lines to write
  std::string judge_against;  ///< answers of another model
  std::string name;           ///< of the model; empty: its folder
};

/// `fathom evaluate`: loss, perplexity and token accuracy of a model on a token file, and ROUGE-L
/// or accuracy of its answers to questions.
struct EvaluateRequest {
  ModelSource source;
  std::string data;  ///< tokens.h5; empty: no loss
  int batch = 8;
  int batches = 0;             ///< 0: the whole file
  bool any_tokenizer = false;  ///< whatever made the token file
  int context = 0;             ///< tokens; 0: what the model allows
  train::Overlong overlong = train::Overlong::refuse;
  RouteScope route_scope = RouteScope::stored;
  AnswerOptions answer;
  std::string output;  ///< JSON file; empty: standard output only
  Ranks ranks;
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command evaluate_command;

/// A task has its own defaults for how answers are made: greedy, once, without ROUGE-L, and as
/// short as the published evaluations have them. Throws Error(usage) or Error(config).
EvaluateRequest parse_evaluate(const Arguments& arguments);

}  // namespace fathom::options
