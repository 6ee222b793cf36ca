#!/usr/bin/env python3
"""Late layers that vote (MoDE), beside and on top of ways to tune a frozen SmolLM2, for a short, equal budget: what
they add, how many layers should vote, what their distillation does; and what decoding gains and loses that leaves
late layers early. Learning rates and plain runs are those of tuning_study.py. May be stopped at any point; the page
is written from what there is.

    launch/quickstart                        # makes SmolLM2's folder, once
    bench/mode_study.py --seeds 1,2,3
"""

import argparse
import functools
import pathlib

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
EXITING = "LoRA + MoDE, k = 6"
EXITS = {
    "all layers": [],
    "top 1": ["--exit=topk", "--exit-topk=1"],
    "top 1, cache copied": ["--exit=topk", "--exit-topk=1", "--exit-cache=copy"],
    "top 2": ["--exit=topk", "--exit-topk=2"],
    "top 3": ["--exit=topk", "--exit-topk=3"],
    "weights of 0.5": ["--exit=threshold", "--exit-threshold=0.5"],
    "weights of 0.7": ["--exit=threshold", "--exit-threshold=0.7"],
    "weights of 0.9": ["--exit=threshold", "--exit-threshold=0.9"],
}
SPEED_TASK, SPEED_QUESTIONS = "arithmetic", 2  # of each set, one after the other


class ModeStudy:
    def __init__(self, options):
        self.options = options
        self.tuned = tuned_runs.TunedRuns(options)
        self.first = options.seeds[0]

    def tune(self, name, base, more, seed):
        settings = [*tuned_runs.METHODS[base], *more]
        return self.tuned.tune(name, settings, seed, self.tuned.rate(base), keep=name == EXITING)

    def exit_setting(self, name, more):
        """Accuracy in batches; processor time of a token where one question is answered after the other."""
        checkpoint = self.tuned.run(EXITING, self.first, self.tuned.rate("LoRA"))

        def make(folder):
            found = {task: self.tuned.score(folder, task, checkpoint, *more) for task in tuned_runs.TASKS}
            alone = ["--batch=1", f"--questions={SPEED_QUESTIONS}", *more]
            seconds, report = {}, {}
            for new in (1, tuned_runs.TASKS[SPEED_TASK][1]):
                seconds[new], report[new] = self.tuned.answer(folder, SPEED_TASK, checkpoint, *alone,
                                                              f"--max-new={new}")
            (short, long) = seconds.values()
            tokens = [r["questions"] * r["seeds"][0]["tokens"] for r in report.values()]
            exits = [r["seeds"][0].get("exits", {}) for r in report.values()][1]  # none where all layers run
            return found | {"token_seconds": (long - short) / (tokens[1] - tokens[0]),
                            "layers": exits.get("layers"), "fastest": exits.get("fastest")}

        return self.tuned.runs.once("exit " + name, self.exit_key(), make)

    def exit_key(self):
        return f"{self.tuned.key(self.first, self.tuned.rate('LoRA'))}-questions{self.options.questions}"

    def exits(self):
        if self.tuned.rate("LoRA") is None:
            return []
        results = {name: r for name in EXITS if (r := self.tuned.runs.result("exit " + name, self.exit_key()))}
        if "all layers" not in results:
            return []
        whole = results["all layers"]["token_seconds"]
        faster = {name: whole / r["token_seconds"] for name, r in results.items()}
        picture = pathlib.Path(self.options.page).with_suffix(".svg")
        picture.write_text(plot.scatter([(faster[name], r["commonsense"], name) for name, r in results.items()],
                                        "decoding, times as fast as all layers", "commonsense accuracy, %"))
        rows = [[name, f"{r['layers']:.1f}" if r["layers"] else "all", f"{1e3 * r['token_seconds']:.1f}",
                 f"{faster[name]:.2f}", f"{r['fastest']:.2f}" if r["fastest"] else "", f"{r['commonsense']:.1f}",
                 f"{r['arithmetic']:.1f}"] for name, r in results.items()]
        return ["", "## Leaving early", "",
                f"{EXITING}, first seed. Speed is that of answering {4 * SPEED_QUESTIONS} arithmetic questions one "
                "after the other with one thread, prompts left out, and at most what the weights of the layers that "
                "are left out allow; accuracy that of batches.", "",
                *study.table(["decided by", "average depth", "CPU ms/token", "times as fast", "at most",
                              "commonsense, %", "arithmetic, %"], rows),
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
        tuned.runs.all([functools.partial(self.exit_setting, *item) for item in EXITS.items()])
        self.write_page()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tuned_runs.add_options(parser, "mode-study.md")
    ModeStudy(parser.parse_args()).everything()


if __name__ == "__main__":
    main()
