#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/options/command_line.h"

namespace fathom::options {

enum class SourceKind { automatic, gguf, dolly, self_instruct, alpaca };

template <>
inline constexpr std::array enum_words<SourceKind> = {
    Word<SourceKind>{"auto", SourceKind::automatic}, Word<SourceKind>{"gguf", SourceKind::gguf},
    Word<SourceKind>{"dolly", SourceKind::dolly},
    Word<SourceKind>{"self_instruct", SourceKind::self_instruct},
    Word<SourceKind>{"alpaca", SourceKind::alpaca}};

/// `fathom import`: a packaged model or a public data set in the form that Fathom reads.
struct ImportRequest {
  std::string source;
  std::string output;
  SourceKind kind = SourceKind::automatic;
  std::optional<std::string> reply;  ///< the --help page
};

extern const Command import_command;
ImportRequest parse_import(const Arguments& arguments);

enum class TextForm { jsonl, text };

template <>
inline constexpr std::array enum_words<TextForm> = {Word<TextForm>{"jsonl", TextForm::jsonl},
                                                    Word<TextForm>{"text", TextForm::text}};

/// `fathom tokenize`: prompts and responses, or plain text, to a token file.
struct TokenizeRequest {
  std::string input;
  std::string output;
  std::string tokenizer;  ///< folder with tokenizer.json, tokenizer.model, or vocab and merges
  TextForm form = TextForm::jsonl;
  std::string prompt_template = "alpaca";
  int context = 0;  ///< tokens; 0: no limit
  train::Overlong overlong = train::Overlong::refuse;
  double eval_fraction = 0.0;
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
