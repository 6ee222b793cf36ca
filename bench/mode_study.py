#!/usr/bin/env python3
"""Late layers that vote (MoDE), beside and on top of ways to tune a frozen SmolLM2, for a short, equal budget: what
they add, how many layers should vote, what their distillation does; and what decoding gains and loses that leaves
late layers early, by a router that starts undecided, reads normed states and learns for longer: one that starts at
the last layer, or reads states as they are, is soon sure of the last layer for every token. Learning rates and plain
runs are those of tuning_study.py. May be stopped at any point; the page is written from what there is.

    launch/quickstart                        # makes SmolLM2's folder, once
    bench/mode_study.py --seeds 1,2,3
"""

import argparse
import copy
import functools
import pathlib
import re

import plot
import study
import tuned_runs

K = 3
LAMBDA = 0.1


def mode(k, weight=LAMBDA):
    return ["--mode.enabled=true", f"--mode.k={k}", f"--mode.lambda={weight}"]


BASES = ["LoRA", "DoRA", "LoReFT", "MoC"]
# Name: the way to tune, and what comes on top.
VOTING = {f"{base} + MoDE": (base, mode(K)) for base in BASES}
VOTING["LoRA below the last 3 layers + MoDE"] = ("LoRA", [*mode(K), "--mode.light=true"])
OTHER_K = {f"LoRA + MoDE, k = {k}": ("LoRA", mode(k)) for k in (1, 2, 4, 5, 6)}
NO_DISTILLATION = {"LoRA + MoDE, k = 3, lambda = 0": ("LoRA", mode(K, 0))}
EXITING = "LoRA + MoDE, k = 6, undecided router"
EXITING_SETTINGS = [*mode(6, 1), "--mode.router_init=uniform", "--mode.router_input=rms"]
LONGER = 4  # times the steps of the other runs
EXITS = {
    "all layers": [],
    "top 1": ["--exit=topk", "--exit-topk=1"],
    "top 1, cache copied": ["--exit=topk", "--exit-topk=1", "--exit-cache=copy"],
    "top 2": ["--exit=topk", "--exit-topk=2"],
    "weights of 0.05": ["--exit=threshold", "--exit-threshold=0.05"],
    "weights of 0.1": ["--exit=threshold", "--exit-threshold=0.1"],
    "weights of 0.2": ["--exit=threshold", "--exit-threshold=0.2"],
    "weights of 0.5": ["--exit=threshold", "--exit-threshold=0.5"],
}
# To be continued: questions outside of their template have no answer of a model that was tuned on it.
SPEED_PROMPTS = ("Once upon a time, in a small village by the sea, there lived",
                 "The history of the Roman Empire begins with", "In order to bake bread, one first has to take",
                 "She opened the door of the old house and saw")
SPEED_NEW = 64
DEPTH_TASK = "arithmetic"


class ModeStudy:
    def __init__(self, options):
        self.options = options
        self.tuned = tuned_runs.TunedRuns(options)
        self.first = options.seeds[0]
        longer = copy.copy(options)
        longer.steps *= LONGER
        self.exiting = tuned_runs.TunedRuns(longer)

    def tune(self, name, base, more, seed):
        settings = [*tuned_runs.METHODS[base], *more]
        return self.tuned.tune(name, settings, seed, self.tuned.rate(base))

    def train_exiting(self):
        settings = [*tuned_runs.METHODS["LoRA"], *EXITING_SETTINGS]
        self.exiting.tune(EXITING, settings, self.first, self.tuned.rate("LoRA"), keep=True)

    def exit_setting(self, name, more):
        """Accuracy and depth of batches; how much faster than through all layers, and the bound."""
        checkpoint = self.exiting.run(EXITING, self.first, self.tuned.rate("LoRA"))

        def make(folder):
            reports = {task: self.exiting.answer(folder, task, checkpoint, *more) for task in tuned_runs.TASKS}
            found = {task: self.exiting.score(report) for task, report in reports.items()}
            if not more:
                return found | {"times": 1.0, "bound": 1.0, "layers": None}
            depth = reports[DEPTH_TASK]["seeds"][0]["exits"]["layers"]
            return found | self.speed(folder, checkpoint, more) | {"layers": depth}

        return self.tuned.runs.once("exit " + name, self.exit_key(), make)

    def speed(self, folder, checkpoint, more):
        """Exits and all layers in turns, one prompt at a time: how many times as fast in the median, and the bound."""
        prompts = folder / "prompts.txt"
        prompts.write_text("\n".join(SPEED_PROMPTS) + "\n")
        study.run_alone(study.fathom("generate", f"--checkpoint={checkpoint}", f"--prompt-file={prompts}",
                                     f"--max-new={SPEED_NEW}", "--exit-compare", *more), folder / "speed.log")
        said = re.search(r"in the median ([0-9.]+) times as fast.* at most ([0-9.]+)",
                         (folder / "speed.log").read_text())
        return {"times": float(said[1]), "bound": float(said[2])}

    def exit_key(self):
        return f"{self.exiting.key(self.first, self.tuned.rate('LoRA'))}-questions{self.options.questions}"

    def exits(self):
        if self.tuned.rate("LoRA") is None:
            return []
        results = {name: r for name in EXITS if (r := self.tuned.runs.result("exit " + name, self.exit_key()))}
        if not results:
            return []
        picture = pathlib.Path(self.options.page).with_suffix(".svg")
        picture.write_text(plot.scatter([(r["times"], r["commonsense"], name) for name, r in results.items()],
                                        "decoding, times as fast as all layers", "commonsense accuracy, %"))
        rows = [[name, f"{r['layers']:.1f}" if r["layers"] else "all", f"{r['times']:.2f}", f"{r['bound']:.2f}",
                 f"{r['commonsense']:.1f}", f"{r['arithmetic']:.1f}"] for name, r in results.items()]
        trained = self.exiting.runs.result(EXITING, self.exiting.key(self.first, self.tuned.rate("LoRA")))
        return ["", "## Leaving early", "",
                "LoRA with k = 6, lambda = 1 and a router that starts undecided (`mode.router_init = uniform`) and "
                "reads normed states (`router_input = rms`), "
                f"{self.exiting.options.steps} steps, first seed: held-out loss {trained['loss']:.3f}. Speed is the "
                f"median ratio of three pairs, exits and all layers in turns, over {len(SPEED_PROMPTS)} prompts of "
                f"{SPEED_NEW} new tokens, one after the other with one thread, prompts left out; at most what the "
                "weights of the layers that are left out allow. Depth and accuracy are those of batches of questions.",
                "",
                *study.table(["decided by", "average depth", "times as fast", "at most", "commonsense, %",
                              "arithmetic, %"], rows),
                "", f"![Accuracy against speed]({picture.name})"]

    def rows(self, jobs):
        tuned = self.tuned
        done = {name: rate for name, (base, _) in jobs.items()
                if (rate := tuned.rate(base)) and tuned.result(name, self.first, rate)}
        return [tuned.row(*item) for item in done.items()]

    def write_page(self):
        tuned, head = self.tuned, self.tuned.HEAD
        seeds = ",".join(map(str, self.options.seeds))
        plain = {base: (base, []) for base in BASES}
        three = {name: job for name, job in VOTING.items() if name == "LoRA + MoDE"}
        pathlib.Path(self.options.page).write_text("\n".join([
            "# Late layers that vote", "",
            f"Made by `bench/mode_study.py --seeds {seeds} --steps {self.options.steps} --questions "
            f"{self.options.questions}`. {tuned.budget()} The last {K} layers vote and lambda is {LAMBDA} unless the "
            "name says otherwise; each method has the learning rate of docs/tuning-study.md.", "",
            *study.table(head, self.rows(plain | VOTING)), "",
            "## How many layers, and their distillation, one seed of LoRA + MoDE", "",
            "(k = 3 over all seeds.)", "", *study.table(head, self.rows(OTHER_K | three | NO_DISTILLATION)),
            *self.exits(), ""]))

    def everything(self):
        tuned = self.tuned
        tuned.make_data()
        tuned.all_seeds({base: tuned_runs.METHODS[base] for base in BASES}, self.write_page)
        for seed in self.options.seeds:
            tuned.runs.all([functools.partial(self.tune, name, *job, seed) for name, job in VOTING.items()])
            self.write_page()
        tuned.runs.all([functools.partial(self.tune, name, *job, self.first)
                        for name, job in (OTHER_K | NO_DISTILLATION).items()])
        self.write_page()
        self.train_exiting()
        tuned.runs.all([functools.partial(self.exit_setting, *item) for item in EXITS.items()])
        self.write_page()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tuned_runs.add_options(parser, "mode-study.md")
    ModeStudy(parser.parse_args()).everything()


if __name__ == "__main__":
    main()
