"""Programs that take turns: each one started once, then asked for one report after the other."""

import json
import os
import subprocess
import sys

# Keeps glibc from giving memory back and faulting it in again, and asks for huge pages: what a
# knowing user of PyTorch on a CPU sets.
TUNED_MALLOC = ":".join(["glibc.malloc.hugetlb=1", "glibc.malloc.mmap_threshold=8589934592",
                         "glibc.malloc.trim_threshold=17179869184"])


class Contender:
    """A command that prints one line of JSON for each line it reads."""

    def __init__(self, name, command, threads, environment=None):
        self.name = name
        self.command = [str(word) for word in command]
        self.environment = {"OMP_NUM_THREADS": str(threads)} | (environment or {})
        self.process = None

    def shown(self):
        settings = [f"{key}={value}" for key, value in self.environment.items()]
        return " ".join(settings + self.command)

    def start(self):
        self.process = subprocess.Popen(
            self.command + ["--serve", "--steps", "1", "--warmup", "0"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | self.environment)

    def report(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError(f"{self.name} ended without a report: {self.shown()}")

    def stop(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()
            self.process = None


def alternate(contenders, rounds, warmups, log=sys.stderr):
    """All contenders resident at once, one step each in turn; the reports of each by name.

    Each one first does `warmups` steps alone, which are thrown away.
    """
    reports = {contender.name: [] for contender in contenders}
    try:
        for contender in contenders:
            contender.start()
            for _ in range(warmups):
                contender.report()
        for number in range(rounds):
            for contender in contenders:
                report = contender.report()
                reports[contender.name].append(report)
                print(f"  round {number + 1}: {contender.name:28} {report['min']:8.3f} s",
                      file=log, flush=True)
    finally:
        for contender in contenders:
            contender.stop()
    return reports
