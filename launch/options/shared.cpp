#include "launch/options/shared.h"

namespace fathom::options {

void describe_source(OptionTable& table, ModelSource& source) {
  table.add("model", source.model, {.help = "Hugging Face folder to load.", .unit = "folder"});
  table.add("checkpoint", source.checkpoint,
            {.help = "Checkpoint to load, or a run folder, whose newest checkpoint is taken.",
             .unit = "folder"});
  table.add(
      "adapter", source.adapter,
      {.help = "Adapter folder to put on --model, as peft writes it; a checkpoint has its own.",
       .unit = "folder"});
  table.add("dtype", source.dtype, {.help = "Storage of the weights."});
}

void check_source(const ModelSource& source) {
  require(source.model.empty() != source.checkpoint.empty(), ErrorKind::usage,
          source.model.empty() ? "give a model: --model=<folder> or --checkpoint=<folder>"
                               : "--model and --checkpoint exclude each other; give one");
  require(source.adapter.empty() || source.checkpoint.empty(), ErrorKind::usage,
          "--adapter belongs to --model; a checkpoint holds its own adapter");
}

void describe_any_tokenizer(OptionTable& table, bool& any_tokenizer) {
  table.add("any-tokenizer", any_tokenizer,
            {.help = "Take a token file that another tokenizer made than the model's, for one that "
                     "gives the same ids."});
}

void describe_device(OptionTable& table, kernels::DeviceKind& device) {
  table.add(
      "device", device,
      {.help = "What computes: auto takes one GPU for each rank where there are any, else the "
               "CPU; sim is the GPU's code on the CPU, for tests."});
}

const char* const kPrecisionHelp =
    "Products of f32 matrices on a GPU: in f32, or with factors rounded to tf32 or bf16 and f32 "
    "sums. Weights, states between layers, losses and sums stay f32.";

const char* const kMemoryLimitHelp =
    "Memory that a rank may take of its device. Parameters, gradients and moments that need more "
    "end the run at its start, states within a step at their first use. 0 takes what is free: of a "
    "GPU all but a reserve, of the machine each rank's share.";

void describe_machine(OptionTable& table, Machine& machine) {
  describe_device(table, machine.device);
  table.add("precision", machine.precision, {.help = kPrecisionHelp});
  table.add("memory-limit-gib", machine.memory_limit_gib,
            {.help = kMemoryLimitHelp, .unit = "GiB per rank", .range = at_least(0)});
  table.add("threads", machine.threads,
            {.help = "Threads of each rank; 0 takes the cores that the rank is bound to.",
             .range = within(0, 4096)});
}

void describe_ranks(OptionTable& table, Ranks& ranks, bool with_dp) {
  constexpr double max_axis = 65536;
  table.add(
      "tp", ranks.tp,
      {.help = "Ranks that share each matrix.", .unit = "ranks", .range = within(1, max_axis)});
  table.add("pp", ranks.pp,
            {.help = "Pipeline stages.", .unit = "ranks", .range = within(1, max_axis)});
  if (with_dp)
    table.add("dp", ranks.dp,
              {.help = "Replicas that share the batches.",
               .unit = "ranks",
               .range = within(1, max_axis)});
  describe_machine(table, ranks);
  table.add(
      "watchdog-seconds", ranks.watchdog_seconds,
      {.help = "End the job when ranks wait for another one this long; their reports in hang/ "
               "name it. Must be longer than loading the model takes. 0 waits forever.",
       .unit = "seconds",
       .range = at_least(0)});
}

}  // namespace fathom::options
