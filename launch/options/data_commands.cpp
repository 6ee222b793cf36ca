#include "launch/options/data_commands.h"

namespace fathom::options {
namespace {

void describe_import(OptionTable& t, ImportRequest& r) {
  t.section("", "Options:");
  t.add("source", r.source,
        {.help = "GGUF file of the llama architecture.",
         .unit = "file",
         .required = true,
         .position = 0});
  t.add("output", r.output,
        {.help = "Hugging Face folder to write; must not have a model yet.",
         .unit = "folder",
         .required = true,
         .position = 1});
  t.add("dtype", r.dtype, {.help = "Storage of the written weights."});
}

void describe_tokenize(OptionTable& t, TokenizeRequest& r) {
  t.section("", "Options:");
  t.add("input", r.input,
        {.help = "Text to read.", .unit = "file", .required = true, .position = 0});
  t.add(
      "output", r.output,
      {.help = "Token file to write.", .unit = "tokens.h5 file", .required = true, .position = 1});
  t.add("tokenizer", r.tokenizer,
        {.help = "Folder with the tokenizer's files, or a model's folder.",
         .unit = "folder",
         .required = true});
  t.add("form", r.form,
        {.help = "jsonl: one JSON object a line (instruction, input, output and their known "
                 "synonyms, or messages); text: plain text; auto goes by the file's name."});
  t.add(
      "template", r.prompt_template,
      {.help = "How a prompt is written: auto (the tokenizer's own chat template), chatml, llama2, "
               "llama3, mistral, zephyr, alpaca, alpaca_train, alpaca_eval, dolly, or plain.",
       .unit = "name"});
  t.add("delimiter", r.delimiter,
        {.help = "Plain text: the line that separates two documents; empty takes a file as one.",
         .unit = "text"});
  t.add("block", r.block,
        {.help = "Plain text: join documents and cut them into records of so many tokens; 0 makes "
                 "one record a document.",
         .unit = "tokens",
         .range = at_least(0)});
  t.add("context", r.context,
        {.help = "Longest record; 0 sets no limit.", .unit = "tokens", .range = at_least(0)});
  t.add("overlong", r.overlong,
        {.help = "What happens to a longer record: stop with an error, cut its end, or leave it "
                 "out."});
  t.add(
      "eval-fraction", r.eval_fraction,
      {.help = "Share of the records to hold out, chosen by the seed.", .range = from_below(0, 1)});
  t.add("eval-first", r.eval_first,
        {.help = "Hold out the first so many lines, documents or blocks.", .range = at_least(0)});
  t.add("eval-output", r.eval_output,
        {.help = "Token file for the held-out records.", .unit = "tokens.h5 file"});
  t.add("seed", r.seed, {.help = "Seed of that choice.", .range = at_least(0)});
}

void describe_convert(OptionTable& t, ConvertRequest& r) {
  t.section("", "Options:");
  t.add(
      "input", r.input,
      {.help = "Hugging Face folder to read.", .unit = "folder", .required = true, .position = 0});
  t.add("output", r.output,
        {.help = "Folder to write; must not exist yet.",
         .unit = "folder",
         .required = true,
         .position = 1});
  t.add("dtype", r.dtype, {.help = "Storage of the written weights."});
  t.add("layers", r.layers,
        {.help = "Keep only these layers, counted from 0; every:N keeps 0, N, 2N and so on; "
                 "empty keeps all."});
  t.add("max-shard-gib", r.max_shard_gib,
        {.help = "Largest safetensors file; a bigger model becomes several.",
         .unit = "GiB",
         .range = above(0)});
}

}  // namespace

const Command import_command = {
    .name = "import",
    .usage = "fathom import MODEL.gguf OUTPUT [--dtype=bf16]",
    .summary = "Turn a packaged model (GGUF) into a Hugging Face folder.",
    .example = "fathom import SmolLM2-135M-Instruct.Q4_1.gguf smollm2"};

ImportRequest parse_import(const Arguments& arguments) {
  return parse_request<ImportRequest>(import_command, arguments, describe_import);
}

const Command tokenize_command = {.name = "tokenize",
                                  .usage = "fathom tokenize INPUT OUTPUT.h5 --tokenizer=DIR",
                                  .summary = "Turn text into a token file.",
                                  .example =
                                      "fathom tokenize dolly.jsonl train.h5 --tokenizer=smollm2 "
                                      "--eval-fraction=0.1 --eval-output=eval.h5"};

TokenizeRequest parse_tokenize(const Arguments& arguments) {
  auto request = parse_request<TokenizeRequest>(tokenize_command, arguments, describe_tokenize);
  if (request.reply) return request;
  require((request.eval_fraction > 0 || request.eval_first > 0) == !request.eval_output.empty(),
          ErrorKind::usage,
          "--eval-output needs --eval-fraction or --eval-first, and they need it");
  return request;
}

const Command convert_command = {
    .name = "convert",
    .usage = "fathom convert INPUT OUTPUT [--dtype=bf16] [--layers=every:3]",
    .summary = "Write a Hugging Face folder in another precision, or with fewer layers.",
    .example = "fathom convert smollm2 smollm2-third --layers=every:3"};

ConvertRequest parse_convert(const Arguments& arguments) {
  return parse_request<ConvertRequest>(convert_command, arguments, describe_convert);
}

}  // namespace fathom::options
