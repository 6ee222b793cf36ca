#!/usr/bin/env python3
"""What MTA and its parts add to their base, on SmolLM2 and a third of its layers: held-out loss and ROUGE-L over
seeds, once with equal steps and once with equal time. Runs are made seed by seed, several beside each other with one
thread each, and what is done is not done again: the study may be stopped at any point, and the page is written from
what there is. Own answers are written for the recipe's share of micro-batches throughout: runs are evaluated at their
end only.

    launch/quickstart                        # makes the data, once
    bench/mta_study.py --steps 60 --seeds 1,2,3

Time is processor time of the training process, which other work on the machine hardly changes: a step's is the
difference between a run and one of three steps, over the steps between them.
"""

import argparse
import functools
import json
import pathlib
import statistics

import study
from study import ROOT

# Every variant is the recipe with a few changes.
VARIANTS = {
    "base alone": ["--mta.enabled=false"],
    "base + DSA": ["--mta.hid_weight=0"],
    "base + Hid": ["--mta.dsa_weight=0"],
    "base + both": [],
    "both, words only": ["--mta.granularity=words", "--mta.words=0"],
    "both, phrases only": ["--mta.granularity=phrases", "--mta.words=0"],
}
BASE = "base alone"
FIRST_STEPS = 3  # of the runs that tell the cost of starting, evaluating and saving


class Study:
    def __init__(self, options):
        self.options = options
        self.runs = study.Runs(options.runs, options.jobs)

    def result(self, variant, seed, steps):
        """What a finished run has found, or None."""
        return self.runs.result(variant, f"seed{seed}-steps{steps}")

    def run(self, variant, seed, steps, score=True):
        return self.runs.once(variant, f"seed{seed}-steps{steps}",
                              lambda run: self.make(variant, seed, steps, score, run))

    def make(self, variant, seed, steps, score, run):
        options = self.options
        result = {"seconds": study.run_alone(
            study.fathom("train", ROOT / "configs/mta-smollm2.ini", f"--run.dir={run}", f"--run.seed={seed}",
                         f"--run.steps={steps}", "--run.keep=1", "--run.save_every=0", "--grid.pp=1",
                         f"--run.eval_every={steps}", f"--run.eval_batches={options.eval_batches}",
                         f"--batch.micro_batches={options.micro_batches}", "--log.tensorboard=false",
                         f"--schedule.warmup_steps={min(10, steps // 2)}", *VARIANTS[variant]),
            run / "train.log")}
        result["loss"] = study.metrics(run, "eval")[-1]["loss"]
        if score:
            answers = run / "answers.json"
            study.run_alone(study.fathom("evaluate", f"--checkpoint={run}",
                                         "--prompts=data_tools/samples/dolly.jsonl",
                                         f"--questions={options.questions}", "--seeds=10,20,30", "--max-new=64",
                                         "--batch=24", f"--output={answers}"), run / "evaluate.log")
            result["rouge_l"] = json.loads(answers.read_text())["answers"]["rouge_l"]["mean"]
        study.drop_checkpoints(run)
        return result

    def step_seconds(self, variant):
        """Of a step, over the seeds that are done."""
        steps = self.options.steps
        first = self.result(BASE, self.options.seeds[0], FIRST_STEPS)["seconds"]
        done = [r for seed in self.options.seeds if (r := self.result(variant, seed, steps))]
        return statistics.median((r["seconds"] - first) / (steps - FIRST_STEPS) for r in done)

    def steps_in_time(self, variant):
        """Of the variant, in the time of the base's steps."""
        if variant == BASE:
            return self.options.steps
        return round(self.options.steps * self.step_seconds(BASE) / self.step_seconds(variant))

    def table(self, title, steps_of):
        rows = []
        for variant in VARIANTS:
            steps = steps_of(variant)
            results = [r for seed in self.options.seeds if (r := self.result(variant, seed, steps))]
            if results:
                rows.append([variant, len(results), steps, f"{self.step_seconds(variant):.2f}",
                             *(study.spread([r[key] for r in results]) for key in ("loss", "rouge_l"))])
        return study.table([title, "seeds", "steps", "s/step", "held-out loss", "ROUGE-L"], rows)

    def write_page(self):
        options = self.options
        equal_steps = self.table("equal steps", lambda variant: options.steps)
        equal_time = self.table("equal time", self.steps_in_time)
        pathlib.Path(options.page).write_text("\n".join([
            "# MTA on SmolLM2 and its parts", "",
            f"Made by `bench/mta_study.py --steps {options.steps} --seeds {','.join(map(str, options.seeds))} "
            f"--micro-batches {options.micro_batches} --eval-batches {options.eval_batches} "
            f"--questions {options.questions}` at commit {study.commit()}: configs/mta-smollm2.ini with "
            f"{4 * options.micro_batches} samples a step, one rank of one thread; mean ± standard deviation over "
            f"seeds; held-out loss of {options.eval_batches} batches of four; ROUGE-L over three samplings of "
            f"{options.questions} held-out questions. Equal time is what {options.steps} steps of the base alone "
            "take, in processor seconds.", "",
            *equal_steps, "", *equal_time, ""]))

    def everything(self):
        options = self.options
        self.run(BASE, options.seeds[0], FIRST_STEPS, score=False)
        for seed in options.seeds:
            self.runs.all([functools.partial(self.run, variant, seed, options.steps) for variant in VARIANTS])
            self.write_page()
        for seed in options.seeds:
            self.runs.all([functools.partial(self.run, variant, seed, self.steps_in_time(variant))
                           for variant in VARIANTS])
            self.write_page()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=lambda text: [int(s) for s in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--micro-batches", type=int, default=4, help="of four samples, a step")
    parser.add_argument("--eval-batches", type=int, default=12)
    parser.add_argument("--questions", type=int, default=48, help="at most 48 are held out")
    parser.add_argument("--jobs", type=int, default=2, help="runs beside each other")
    parser.add_argument("--runs", default=str(ROOT / "runs/mta-study"))
    parser.add_argument("--page", default=str(ROOT / "docs/mta-study.md"))
    Study(parser.parse_args()).everything()


if __name__ == "__main__":
    main()
