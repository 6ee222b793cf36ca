#include <limits>

#include "launch/options/shared.h"
#include "launch/options/train_tables.h"

namespace fathom::options {

void describe_run(OptionTable& t, train::RunConfig& c) {
  t.section("run", "Length, folders and safety of the run", OnResume::free);
  t.add("dir", c.dir, {.help = "Run folder: checkpoints, metrics and the lock.", .unit = "folder"});
  t.add("seed", c.seed,
        {.help = "Seed of sample order, dropout and random weights.",
         .range = within(0, 9007199254740992.0),
         .on_resume = OnResume::data});
  t.add("steps", c.steps,
        {.help = "Optimizer steps of the whole run; schedules are keyed on it.",
         .unit = "steps",
         .range = within(1, std::numeric_limits<int>::max()),
         .on_resume = OnResume::training});
  t.add("log_every", c.log_every,
        {.help = "Steps between plain log lines; the metrics files get every step.",
         .unit = "steps",
         .range = at_least(1)});
  t.add("eval_every", c.eval_every,
        {.help = "Steps between evaluations on data.eval; 0 evaluates only before the first and "
                 "after the last step.",
         .unit = "steps",
         .range = at_least(0)});
  t.add("eval_batches", c.eval_batches,
        {.help = "Micro-batches of one evaluation, from the start of data.eval; 0 takes all.",
         .unit = "micro-batches",
         .range = at_least(0)});
  t.add("save_every", c.save_every,
        {.help = "Steps between checkpoints; 0 writes only the last step.",
         .unit = "steps",
         .range = at_least(0)});
  t.add("keep", c.keep, {.help = "Newest checkpoints to keep; 0 keeps all.", .range = at_least(0)});
  t.add(
      "save_errors", c.save_errors,
      {.help = "After a checkpoint that could not be written, end the run, or go on and try again "
               "with the next one; the last one of a run is tried twice in any case."});
  t.add("resume", c.resume,
        {.help = "Continue from the newest checkpoint in run.dir if there is one (auto), only if "
                 "there is one (must), or refuse to start beside one (never)."});
  t.add("resume_fallback", c.resume_fallback,
        {.help = "If the newest checkpoint is damaged, go on from the newest sound one, and set "
                 "the others aside as step_*.damaged; without it damage is an error."});
  t.add("reset_data", c.reset_data,
        {.help = "On resume, accept another data set, context or batch: the sample order starts "
                 "anew."});
  t.add("reset_optimizer", c.reset_optimizer,
        {.help = "On resume, start the optimizer's moments at zero."});
  t.add("accept_changes", c.accept_changes,
        {.help = "On resume, accept options that change the training and differ from the "
                 "checkpoint's; the new values are used."});
  describe_device(t, c.device);
  t.add("precision", c.precision, {.help = kPrecisionHelp, .on_resume = OnResume::training});
  t.add("threads", c.threads,
        {.help = "Threads of each rank; 0 takes the cores that the rank is bound to.",
         .range = within(0, 4096)});
  t.add("memory_limit_gib", c.memory_limit_gib,
        {.help = kMemoryLimitHelp, .unit = "GiB per rank", .range = at_least(0)});
  t.add("watchdog_seconds", c.watchdog_seconds,
        {.help = "End the job when a rank makes no progress for this long; at half of it the rank "
                 "says what it waits for. 0 waits forever.",
         .unit = "seconds",
         .range = at_least(0)});
  t.add("watchdog_load_seconds", c.watchdog_load_seconds,
        {.help = "The same while models, data and checkpoint are loaded.",
         .unit = "seconds",
         .range = above(0)});
  t.add("watchdog_save_seconds", c.watchdog_save_seconds,
        {.help = "The same while training waits for a checkpoint to be written.",
         .unit = "seconds",
         .range = above(0)});
  t.add("watchdog_eval_seconds", c.watchdog_eval_seconds,
        {.help = "The same within an evaluation.", .unit = "seconds", .range = above(0)});
  t.add("quiet", c.quiet, {.help = "Print warnings and errors only."});
}

}  // namespace fathom::options
