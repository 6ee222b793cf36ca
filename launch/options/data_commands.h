#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data_tools/text/tokenize.h"
#include "launch/options/command_line.h"

namespace fathom::options {

/// `fathom import`: a packaged model (GGUF) as a Hugging Face folder.
struct ImportRequest {
  std::string source;
  std::string output;
  DType dtype = DType::f32;
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command import_command;
ImportRequest parse_import(const Arguments& arguments);

template <>
inline constexpr std::array enum_words<data_tools::TextForm> = {
    Word<data_tools::TextForm>{"auto", data_tools::TextForm::automatic},
    Word<data_tools::TextForm>{"jsonl", data_tools::TextForm::jsonl},
    Word<data_tools::TextForm>{"text", data_tools::TextForm::text}};

/// `fathom tokenize`: prompts and responses, or plain text, to a token file.
struct TokenizeRequest {
  std::string input;
  std::string output;
  std::string tokenizer;  ///< folder with tokenizer.json, tokenizer.model, or vocab and merges
  data_tools::TextForm form = data_tools::TextForm::automatic;
  std::string prompt_template = "auto";
  std::string
      delimiter;  ///< plain text: the line between two documents; empty: one document a file
  std::int64_t block = 0;
  int context = 0;  ///< tokens; 0: no limit
  train::Overlong overlong = train::Overlong::refuse;
  double eval_fraction = 0.0;
  std::int64_t eval_first = 0;
  std::string eval_output;
  std::int64_t seed = 1;
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command tokenize_command;
TokenizeRequest parse_tokenize(const Arguments& arguments);

/// `fathom convert`: one Hugging Face folder from another.
struct ConvertRequest {
  std::string input;
  std::string output;
  DType dtype = DType::f32;
  train::LayerChoice layers;  ///< not given: all
  double max_shard_gib = 4.0;
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command convert_command;
ConvertRequest parse_convert(const Arguments& arguments);

}  // namespace fathom::options
