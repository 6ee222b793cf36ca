"""Turns what the steps of tests/device/run left behind into report.json, and fails where a check failed.

    tests/device/report.py WORK_FOLDER OUTPUT_FOLDER
"""

import array
import json
import math
import pathlib
import re
import struct
import sys

# Products of 1e3 terms or so whose factors have these relative errors: the share of a tensor's norm
# by which its gradient may differ. Errors of single terms are independent, so they do not add up.
ALLOWED = {"f32": 1e-4, "tf32": 2**-9, "bf16": 2**-5}

KILLED = "137"  # 128 + SIGKILL, as a shell reports it


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = array.array("f", data[begin:end])
    return tensors


def distance(ours, theirs):
    """|ours - theirs| / |theirs|; infinite where it is not a number, so that the worst of several is found."""
    if ours is None or len(ours) != len(theirs):
        return math.inf
    gap = sum((a - b) ** 2 for a, b in zip(ours, theirs))
    found = math.sqrt(gap / max(sum(b * b for b in theirs), 1e-30))
    return found if math.isfinite(found) else math.inf


def compare_tensors(work, precision, report):
    """Outputs and gradients of one batch."""
    found = {}
    for file in ("expected.safetensors", "grads.safetensors"):
        cpu, gpu = work / "probe_cpu" / file, work / f"probe_{precision}" / file
        if not (cpu.exists() and gpu.exists()):
            report["failed"].append(f"probe_{precision}: {file} is missing")
            return
        theirs, ours = read_safetensors(cpu), read_safetensors(gpu)
        found |= {name: distance(ours.get(name), values) for name, values in theirs.items()}
    worst = max(found, key=found.get)
    report["parity"][precision] = {"tensors": len(found), "worst": worst, "distance": found[worst]}
    if found[worst] > ALLOWED[precision]:
        report["failed"].append(
            f"probe_{precision}: {worst} differs by {found[worst]:.2e}, more than {ALLOWED[precision]:.2e}")


def read_steps_of_probe(path):
    """[(loss, norm of the gradient)] by step."""
    if not path.exists():
        return []
    lines = re.findall(r"^step \d+  loss (\S+)  grad_norm (\S+)$", path.read_text(), re.M)
    return [(float(loss), float(norm)) for loss, norm in lines]


def compare_steps(work, precision, report):
    """Losses and gradients' norms of a few updates. Each update carries the errors of those before it on."""
    theirs = read_steps_of_probe(work / "probe_cpu.log")
    ours = read_steps_of_probe(work / f"probe_{precision}.log")
    if not theirs or len(ours) != len(theirs):
        report["failed"].append(f"probe_{precision}: {len(ours)} steps, and {len(theirs)} on the CPU")
        return
    worst = 0
    for step, (a, b) in enumerate(zip(ours, theirs)):
        for what, x, y in zip(("loss", "norm of the gradient"), a, b):
            off = distance([x], [y])
            worst = max(worst, off)
            if off > (1 + step) * ALLOWED[precision]:
                report["failed"].append(f"probe_{precision}: the {what} of step {step} is {x}, and {y} on the CPU")
    report["parity"].setdefault(precision, {})["steps"] = worst


def losses(folder):
    path = folder / "metrics.jsonl"
    if not path.exists():
        return None
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if line.get("kind") == "step"}


def compare_runs(work, report):
    once = losses(work / "once")
    for name in ("again", "resumed"):
        other = losses(work / name)
        same = once is not None and len(once) == 20 and other == once
        report["same_losses"][name] = same
        if not same:
            report["failed"].append(f"run {name}: its losses are not bit for bit those of the first run")
    if once:
        report["loss"] = [once[min(once)], once[max(once)]]


def read_steps(output, report):
    for line in (output / "steps.txt").read_text().splitlines():
        name, code, seconds = line.split()
        report["steps"][name] = {"code": code, "seconds": int(seconds)}
        wanted = KILLED if name == "train_stopped" else "0"
        if code != wanted:
            report["failed"].append(f"{name}: exit code {code}, not {wanted}")
    if not report["steps"]:
        report["failed"].append("no step was taken")


def read_benches(work, report):
    for path in sorted(work.glob("step_*.log")):
        lines = [line for line in path.read_text().splitlines() if line.startswith("{")]
        if lines:
            found = json.loads(lines[-1])
            report["speed"][path.stem] = {
                "tokens_per_s": found["tokens_per_s"],
                "tflops": found["gflops"] / 1e3,
                "share_of_measured_peak": found["gflops"] / found["peak_gflops"],
            }
    kernels = work / "kernels.log"
    if kernels.exists():
        report["kernels"] = kernels.read_text().splitlines()


def main():
    work, output = map(pathlib.Path, sys.argv[1:3])
    report = {"failed": [], "steps": {}, "parity": {}, "same_losses": {}, "speed": {}}
    read_steps(output, report)
    for precision in ALLOWED:
        compare_tensors(work, precision, report)
        compare_steps(work, precision, report)
    compare_runs(work, report)
    read_benches(work, report)
    (output / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    for failure in report["failed"]:
        print("FAILED", failure)
    sys.exit(1 if report["failed"] else 0)


if __name__ == "__main__":
    main()
