#!/usr/bin/env python3
"""What MTA and its parts add to their base, on SmolLM2 and a third of its layers: held-out loss and ROUGE-L over
seeds, once with equal steps and once with equal time. Runs one after the other and may be stopped at any point: what
is done is not done again. Writes a page with the table.

    launch/quickstart                        # makes the data, once
    bench/mta_study.py --steps 60 --seeds 1,2,3
"""

import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Every variant is the recipe with a few changes.
VARIANTS = {
    "base alone": ["--mta.enabled=false"],
    "base + DSA": ["--mta.hid_weight=0"],
    "base + Hid": ["--mta.dsa_weight=0"],
    "base + both": [],
    "both, words only": ["--mta.granularity=words", "--mta.words=0"],
    "both, phrases only": ["--mta.granularity=phrases", "--mta.words=0"],
}


def lines_of(run, kind):
    with open(run / "metrics.jsonl", encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if line["kind"] == kind]


def step_seconds(run):
    """Median time of a step, the first few left out."""
    return statistics.median(line["seconds"] for line in lines_of(run, "step")[3:])


class Study:
    def __init__(self, options):
        self.options = options
        self.folder = pathlib.Path(options.runs)

    def train(self, variant, seed, steps, budget):
        run = self.folder / budget / variant.replace(" ", "-").replace(",", "") / f"seed{seed}"
        if not (run / "done.json").exists():
            run.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                [ROOT / "launch/fathom-mpirun", "-n", "2", ROOT / "build/bin/fathom", "train",
                 ROOT / "configs/mta-smollm2.ini", f"--run.dir={run}", f"--run.seed={seed}",
                 f"--run.steps={steps}", "--run.keep=1", "--run.save_every=0", "--log.tensorboard=false",
                 *VARIANTS[variant]], cwd=ROOT, check=True)
            answers = self.score(run)
            result = {"steps": steps, "loss": lines_of(run, "eval")[-1]["loss"],
                      "rouge_l": answers["answers"]["rouge_l"]["mean"], "step_seconds": step_seconds(run)}
            (run / "done.json").write_text(json.dumps(result))
        return json.loads((run / "done.json").read_text())

    def score(self, run):
        out = run / "answers.json"
        subprocess.run(
            [ROOT / "build/bin/fathom", "evaluate", f"--checkpoint={run}",
             "--prompts=data_tools/samples/dolly.jsonl", f"--questions={self.options.questions}",
             "--seeds=10,20,30", "--max-new=64", "--batch=32", f"--output={out}"],
            cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return json.loads(out.read_text())

    def table(self, budget, steps_of):
        rows = [f"| {budget} | steps | s/step | held-out loss | ROUGE-L |", "|---|---|---|---|---|"]
        for variant in VARIANTS:
            results = [self.train(variant, seed, steps_of(variant), budget.replace(" ", "-"))
                       for seed in self.options.seeds]
            spread = {key: f"{statistics.mean(r[key] for r in results):.3f} ± "
                           f"{statistics.stdev(r[key] for r in results) if len(results) > 1 else 0:.3f}"
                      for key in ("loss", "rouge_l")}
            seconds = statistics.median(r["step_seconds"] for r in results)
            rows.append(f"| {variant} | {results[0]['steps']} | {seconds:.2f} | {spread['loss']} | "
                        f"{spread['rouge_l']} |")
        return rows

    def run(self):
        options = self.options
        equal_steps = self.table("equal steps", lambda variant: options.steps)
        base = self.train("base alone", options.seeds[0], options.steps, "equal-steps")
        seconds = base["step_seconds"] * options.steps

        def steps_in_time(variant):
            runs = [self.train(variant, seed, options.steps, "equal-steps") for seed in options.seeds]
            return max(20, round(seconds / statistics.median(r["step_seconds"] for r in runs)))

        equal_time = self.table("equal time", steps_in_time)
        page = pathlib.Path(options.page)
        page.write_text("\n".join([
            "# MTA on SmolLM2 and its parts", "",
            f"`bench/mta_study.py --steps {options.steps} --seeds {','.join(map(str, options.seeds))} "
            f"--questions {options.questions}`: configs/mta-smollm2.ini, two ranks of one core; mean ± sd over "
            f"seeds; ROUGE-L over three samplings of {options.questions} held-out questions. Equal time is what "
            f"{options.steps} steps of the base alone take.", "", *equal_steps, "", *equal_time, ""]))
        print(page.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=lambda text: [int(s) for s in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--questions", type=int, default=48, help="at most 48 are held out")
    parser.add_argument("--runs", default=str(ROOT / "runs/mta-study"))
    parser.add_argument("--page", default=str(ROOT / "docs/mta-study.md"))
    Study(parser.parse_args()).run()


if __name__ == "__main__":
    main()
