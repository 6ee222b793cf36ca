"""Short runs that tune SmolLM2-135M-Instruct on the shipped commonsense and arithmetic samples, and what they
found: held-out loss, accuracy, processor time of a step, memory, trained parameters. The studies of tuning and of late
layers that vote share these runs."""

import functools
import json
import pathlib
import statistics

import study

SAMPLES = study.ROOT / "data_tools/samples"
TASKS = {"commonsense": ("commonsense-test.jsonl", 8), "arithmetic": ("math-test.jsonl", 64)}  # new tokens
CONTEXT = 128
HELD_OUT = 32
RATES = (5e-4, 2e-3, 8e-3)  # tried with the first seed; each method keeps the best one
BATCH = 8

# Equal trained parameters as near as ranks allow; VeRA and LoReFT as published.
TARGETS = "--adapter.targets=q_proj,k_proj,v_proj,up_proj,down_proj"
METHODS = {
    "LoRA": ["--adapter.kind=lora", "--adapter.rank=8", TARGETS],
    "DoRA": ["--adapter.kind=dora", "--adapter.rank=8", TARGETS],
    "VeRA": ["--adapter.kind=vera", "--adapter.rank=256", TARGETS],
    "LoReFT": ["--adapter.kind=loreft", "--adapter.rank=8"],
    "Parallel Control": ["--adapter.kind=parallel_control", "--adapter.rank=24"],
    "MoC": ["--moc.enabled=true", "--moc.rank=24"],
    "MoLEx": ["--adapter.kind=molex", "--adapter.rank=6", TARGETS],
}


def add_options(parser, page):
    parser.add_argument("--model", default="data/quickstart/smollm2", help="as launch/quickstart makes it")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--seeds", type=lambda text: [int(s) for s in text.split(",")], default=[1, 2, 3])
    parser.add_argument("--questions", type=int, default=8, help="of each of the 7 + 4 sets")
    parser.add_argument("--jobs", type=int, default=2, help="runs beside each other, of one thread each")
    parser.add_argument("--runs", default=str(study.ROOT / "runs/tuning-study"))
    parser.add_argument("--page", default=str(study.ROOT / "docs" / page))


class TunedRuns:
    def __init__(self, options):
        self.options = options
        self.runs = study.Runs(options.runs, options.jobs)
        self.data = pathlib.Path(options.runs).resolve() / f"data-{CONTEXT}"
        self.model = study.ROOT / options.model

    def make_data(self):
        """Records of both samples by turns, those of more than the context left out."""
        if (self.data / "train.h5").exists():
            return
        self.data.mkdir(parents=True, exist_ok=True)
        files = [(SAMPLES / name).read_text(encoding="utf-8").splitlines()
                 for name in ("commonsense.jsonl", "math.jsonl")]
        turns = [line for pair in zip(*files) for line in pair]
        rest = [line for lines in files for line in lines[len(turns) // 2:]]
        mixed = self.data / "mixed.jsonl"
        mixed.write_text("\n".join(turns + rest) + "\n", encoding="utf-8")
        study.run_alone(
            study.fathom("tokenize", mixed, self.data / "train.h5", f"--tokenizer={self.model}", "--template=alpaca",
                         f"--context={CONTEXT}", "--overlong=skip", "--eval-first=96",
                         f"--eval-output={self.data / 'eval.h5'}"), self.data / "tokenize.log")

    def train(self, run, settings, seed, rate):
        options = self.options
        command = study.fathom(
            "train", f"--run.dir={run}", f"--run.seed={seed}", f"--run.steps={options.steps}",
            "--run.keep=1", f"--run.eval_batches={HELD_OUT // BATCH}", f"--model.path={self.model}",
            "--model.frozen_dtype=bf16", f"--data.train={self.data / 'train.h5'}",
            f"--data.eval={self.data / 'eval.h5'}", f"--data.context={CONTEXT}", f"--batch.micro_batch={BATCH}",
            "--batch.micro_batches=1", f"--optim.lr={rate}", "--optim.weight_decay=0", "--schedule.kind=linear",
            "--schedule.warmup_steps=2", "--log.tensorboard=false", *settings)
        seconds = study.train_alone(command, run, run / "train.log")
        before, after = (line["loss"] for line in study.metrics(run, "eval"))
        return {"before": before, "loss": after, "step_seconds": seconds,
                "memory": max(line["memory_bytes"] for line in study.metrics(run, "step")),
                "parameters": study.trained_parameters(run)}

    def answer(self, folder, task, checkpoint, *more):
        """The report of a task's answers."""
        questions, new = TASKS[task]
        file = folder / f"{task}.json"
        study.run_alone(
            study.fathom("evaluate", f"--checkpoint={checkpoint}", f"--task={task}",
                         f"--prompts={SAMPLES / questions}", "--template=alpaca",
                         f"--questions={self.options.questions}", f"--max-new={new}", "--batch=32",
                         f"--output={file}", *more), folder / f"{task}.log")
        return json.loads(file.read_text())["answers"]

    def score(self, report):
        """Percent of right answers, by the extraction that published tables use."""
        return report["accuracy"]["legacy"]["mean"]

    def key(self, seed, rate):
        return f"seed{seed}-steps{self.options.steps}-lr{rate:g}"

    def run(self, name, seed, rate):
        return self.runs.folder_of(name, self.key(seed, rate))

    def _answers(self, seed, rate):
        return f"{self.key(seed, rate)}/answers{self.options.questions}"

    def trained(self, name, settings, seed, rate):
        return self.runs.once(name, self.key(seed, rate), lambda run: self.train(run, settings, seed, rate))

    def tune(self, name, settings, seed, rate, keep=False):
        """Trains and scores; the checkpoint goes unless it is to be kept."""
        self.trained(name, settings, seed, rate)
        run = self.run(name, seed, rate)
        self.runs.once(name, self._answers(seed, rate),
                       lambda folder: {task: self.score(self.answer(folder, task, run)) for task in TASKS})
        if not keep:
            study.drop_checkpoints(run)

    def result(self, name, seed, rate):
        """What is known of a run that was scored, or None."""
        answers = self.runs.result(name, self._answers(seed, rate))
        return answers and self.runs.result(name, self.key(seed, rate)) | answers

    def loss(self, name, rate):
        """Held-out loss of the first seed, or None."""
        done = self.runs.result(name, self.key(self.options.seeds[0], rate))
        return done and done["loss"]

    def rate(self, name):
        """The learning rate of the lowest one; None if not all were tried."""
        losses = {rate: self.loss(name, rate) for rate in RATES}
        return None if None in losses.values() else min(losses, key=losses.get)

    def first_seed(self, name, settings):
        """Tries all rates and scores the best."""
        seed = self.options.seeds[0]
        for rate in RATES:
            self.trained(name, settings, seed, rate)
        for rate in RATES:
            if rate != self.rate(name):
                study.drop_checkpoints(self.run(name, seed, rate))
        self.tune(name, settings, seed, self.rate(name))

    def all_seeds(self, methods, wrote):
        """Every method with its best rate; calls `wrote` after each seed."""
        first, *others = self.options.seeds
        self.runs.all([functools.partial(self.first_seed, *item) for item in methods.items()])
        wrote()
        for seed in others:
            self.runs.all([functools.partial(self.tune, name, settings, seed, self.rate(name))
                           for name, settings in methods.items()])
            wrote()

    def row(self, name, rate):
        """One line of a table, over the seeds that are done."""
        results = [r for seed in self.options.seeds if (r := self.result(name, seed, rate))]
        seconds = statistics.median(r["step_seconds"] for r in results)
        columns = [study.spread([r[key] for r in results], digits)
                   for key, digits in (("loss", 3), ("commonsense", 1), ("arithmetic", 1))]
        return [name, f"{results[0]['parameters']:,}", f"{rate:g}", len(results), *columns, f"{seconds:.2f}",
                f"{max(r['memory'] for r in results) / 2**20:.0f}"]

    HEAD = ["method", "trained parameters", "learning rate", "seeds", "held-out loss", "commonsense, %",
            "arithmetic, %", "CPU s/step", "peak memory, MiB"]

    def budget(self):
        """What the page says about the runs."""
        options = self.options
        return (
            f"SmolLM2-135M-Instruct with bf16 weights, {options.steps} steps of {BATCH} records (at most {CONTEXT} "
            f"tokens) of the shipped commonsense and arithmetic samples, mixed; {HELD_OUT} held-out records; greedy "
            f"answers to {options.questions} questions of each of the 7 commonsense and 4 arithmetic test sets "
            f"({TASKS['commonsense'][1]} and {TASKS['arithmetic'][1]} new tokens at most), accuracy by the published "
            f"extraction. Mean ± standard deviation over seeds. CPU time is that of one thread, {options.jobs} runs "
            f"beside each other. Commit {study.commit()}.")
