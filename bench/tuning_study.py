#!/usr/bin/env python3
"""Ways to tune a frozen SmolLM2 for a short, equal budget: LoRA, DoRA, VeRA, LoReFT, Parallel Control, mixture of
control and its variants. Each method takes the best of three learning rates by the held-out loss of the first
seed; variants take their method's. May be stopped at any point; the page is written from what there is.

    launch/quickstart                        # makes SmolLM2's folder, once
    bench/tuning_study.py --seeds 1,2,3
"""

import argparse
import functools
import pathlib

import study
import tuned_runs

MOC = ["--moc.enabled=true"]
BOTH = [*MOC, "--moc.rank=24"]
ONE_SITE = [*MOC, "--moc.rank=48"]  # as many parameters as both sites with half the rank
VARIANTS = {
    "MoC, attention sites": [*ONE_SITE, "--moc.sites=attention"],
    "MoC, MLP sites": [*ONE_SITE, "--moc.sites=mlp"],
    "MoC, a gate for each site": [*BOTH, "--moc.gate=separate"],
    "MoC, K = 2": [*BOTH, "--moc.top_k=2"],
    "MoC, K = 4": [*BOTH, "--moc.top_k=4"],
    "MoC, K = 1, softmax before Top-K": [*BOTH, "--moc.softmax=softmax_topk"],
    "MoC, alpha = 0.5": [*BOTH, "--moc.alpha=0.5"],
    "MoC, no balance term": [*BOTH, "--moc.balance=0"],
}


class TuningStudy:
    def __init__(self, options):
        self.options = options
        self.tuned = tuned_runs.TunedRuns(options)

    def rate(self, name):
        return self.tuned.rate("MoC" if name in VARIANTS else name)

    def rows(self, names):
        done = [name for name in names if self.rate(name) and
                self.tuned.result(name, self.options.seeds[0], self.rate(name))]
        return [self.tuned.row(name, self.rate(name)) for name in done]

    def write_page(self):
        tuned, seeds = self.tuned, ",".join(map(str, self.options.seeds))
        rates = [[name, *("" if (loss := tuned.loss(name, rate)) is None else f"{loss:.3f}"
                          for rate in tuned_runs.RATES)] for name in tuned_runs.METHODS]
        pathlib.Path(self.options.page).write_text("\n".join([
            "# Ways to tune a frozen model", "",
            f"Made by `bench/tuning_study.py --seeds {seeds} --steps {self.options.steps} --questions "
            f"{self.options.questions}`. {tuned.budget()}", "",
            *study.table(tuned.HEAD, self.rows(tuned_runs.METHODS)), "",
            "## Variants of mixture of control, one seed", "", *study.table(tuned.HEAD, self.rows(VARIANTS)), "",
            "## Held-out loss by learning rate, one seed", "",
            *study.table(["method", *(f"{rate:g}" for rate in tuned_runs.RATES)], rates), ""]))

    def everything(self):
        tuned = self.tuned
        tuned.make_data()
        tuned.all_seeds(tuned_runs.METHODS, self.write_page)
        tuned.runs.all([functools.partial(tuned.tune, name, settings, self.options.seeds[0], self.rate(name))
                        for name, settings in VARIANTS.items()])
        self.write_page()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tuned_runs.add_options(parser, "tuning-study.md")
    TuningStudy(parser.parse_args()).everything()


if __name__ == "__main__":
    main()
