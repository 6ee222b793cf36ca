"""What the studies share: many small runs, each made once, several beside each other, and tables of what they
found. A study may be stopped at any point: what is done is not done again."""

import concurrent.futures
import itertools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def fathom(command, *options):
    """The words of a call with one thread, which every command that runs a model takes its own option for."""
    threads = {"train": ["--run.threads=1"], "evaluate": ["--threads=1"], "generate": ["--threads=1"]}.get(command, [])
    return [ROOT / "build/bin/fathom", command, *threads, *options]


def _start(command, file):
    return subprocess.Popen([str(word) for word in command], cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)


def _succeeded(process, status, log):
    if status:
        raise SystemExit(f"{' '.join(process.args)}: failed, see {log}")


def run_alone(command, log):
    """Runs it; the seconds of processor time that it took, which other work on the machine changes much
    less than the time that passes."""
    with open(log, "w", encoding="utf-8") as file:
        process = _start(command, file)
        _, status, usage = os.wait4(process.pid, 0)
    _succeeded(process, status, log)
    return usage.ru_utime + usage.ru_stime


def _processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def train_alone(command, run, log):
    """Trains; the median of the processor time between two steps' lines in the run's metrics.jsonl."""
    file, marks = run / "metrics.jsonl", []
    with open(log, "w", encoding="utf-8") as out:
        process = _start(command, out)
        while process.poll() is None:
            steps = file.read_text(encoding="utf-8").count('"kind":"step"') if file.exists() else 0
            if steps > (marks[-1][0] if marks else 0):
                marks.append((steps, _processor_seconds(process.pid)))
            time.sleep(0.02)
    _succeeded(process, process.returncode, log)
    return statistics.median((after[1] - before[1]) / (after[0] - before[0])
                             for before, after in itertools.pairwise(marks))


class Runs:
    """Runs in a folder, by name and key; what a finished one has found is in its done.json."""

    def __init__(self, folder, jobs):
        self.folder = pathlib.Path(folder)
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)

    def folder_of(self, name, key):
        kept = "".join(c for c in name.replace(" ", "-") if c.isalnum() or c in "-+=.")
        return self.folder / kept / key

    def result(self, name, key):
        """None if it is not done."""
        file = self.folder_of(name, key) / "done.json"
        return json.loads(file.read_text()) if file.exists() else None

    def once(self, name, key, make):
        """`make(folder)` finds the result, unless that was done before."""
        folder = self.folder_of(name, key)
        if not (folder / "done.json").exists():
            shutil.rmtree(folder, ignore_errors=True)  # what an interrupted one left
            folder.mkdir(parents=True)
            found = make(folder)
            (folder / "done.part").write_text(json.dumps(found, indent=1) + "\n")
            (folder / "done.part").rename(folder / "done.json")
        return self.result(name, key)

    def all(self, jobs):
        """Calls each of them, as many at once as the study allows; their results in order."""
        return [done.result() for done in [self.pool.submit(job) for job in jobs]]


def metrics(run, kind):
    """The lines of one kind, "step" or "eval", of a training run."""
    with open(run / "metrics.jsonl", encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if line["kind"] == kind]


def trained_parameters(run):
    """How many the optimizer of a run has moments of."""
    manifest = next(run.glob("step_*/manifest.json"))
    tensors = json.loads(manifest.read_text())["tensors"]
    count = 0
    for name, tensor in tensors.items():
        if name.endswith("#exp_avg"):
            elements = 1
            for size in tensor["shape"]:
                elements *= size
            count += elements
    return count


def drop_checkpoints(run):
    """Hundreds of MiB that nothing reads again."""
    for checkpoint in run.glob("step_*"):
        shutil.rmtree(checkpoint)


def commit():
    """Of the working tree, short."""
    return subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                          check=True).stdout.strip()


def spread(values, digits=3):
    """Mean and, of several values, the standard deviation."""
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|",
            *("| " + " | ".join(map(str, row)) + " |" for row in rows)]
