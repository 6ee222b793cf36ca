#include "launch/options/checkpoint.h"

namespace fathom::options {
namespace {

void describe(OptionTable& t, CheckpointRequest& r) {
  t.section("", "What to do:");
  t.add("action", r.action,
        {.help = "Show run state, grid and sizes; read every byte against its checksum; or write "
                 "a Hugging Face folder.",
         .required = true,
         .position = 0});
  t.add("path", r.checkpoint,
        {.help = "Checkpoint, or a run folder, whose newest checkpoint is taken.",
         .unit = "folder",
         .required = true,
         .position = 1});
  t.section("", "inspect:");
  t.add("tensors", r.tensors, {.help = "List every tensor with shape, type and pieces."});
  t.section("", "export:");
  t.add("output", r.output, {.help = "Folder to write; must not exist yet.", .unit = "folder"});
  t.add("adapter", r.adapter,
        {.help = "The model with its adapter merged into the weights, or the adapter alone as a "
                 "folder that peft loads."});
  t.add("dtype", r.dtype, {.help = "Storage of the exported weights."});
  t.add("max-shard-gib", r.max_shard_gib,
        {.help = "Largest safetensors file; a bigger model becomes several.",
         .unit = "GiB",
         .range = above(0)});
}

}  // namespace

const Command checkpoint_command = {
    .name = "checkpoint",
    .usage = "fathom checkpoint inspect|verify|export DIR [--output=DIR]",
    .summary = "Look into a checkpoint, verify it, or export it as a Hugging Face folder.",
    .example = "fathom checkpoint export runs/quickstart --output=student"};

CheckpointRequest parse_checkpoint(const Arguments& arguments) {
  auto request = parse_request<CheckpointRequest>(checkpoint_command, arguments, describe);
  if (request.reply) return request;
  const bool exports = request.action == CheckpointAction::export_folder;
  require(exports == !request.output.empty(), ErrorKind::usage,
          exports ? "checkpoint export needs --output=<folder>"
                  : "--output belongs to checkpoint export");
  return request;
}

}  // namespace fathom::options
