"""Turns what the steps of tests/device/run left behind into report.json, and fails where a check failed.

    tests/device/report.py WORK_FOLDER OUTPUT_FOLDER
"""

import array
import json
import math
import pathlib
import struct
import sys

# Products of 1e3 terms or so whose factors have these relative errors: the share of a tensor's norm
# by which its gradient may differ. Errors of single terms are independent, so they do not add up.
ALLOWED = {"f32": 1e-4, "tf32": 2**-9, "bf16": 2**-5}


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
    """|ours - theirs| / |theirs|."""
    gap = sum((a - b) ** 2 for a, b in zip(ours, theirs))
    return math.sqrt(gap / max(sum(b * b for b in theirs), 1e-30))


def compare_probes(work, report):
    for precision, allowed in ALLOWED.items():
        found = {}
        for file in ("expected.safetensors", "grads.safetensors"):
            cpu, gpu = work / "probe_cpu" / file, work / f"probe_{precision}" / file
            if not (cpu.exists() and gpu.exists()):
                continue
            theirs, ours = read_safetensors(cpu), read_safetensors(gpu)
            found |= {name: distance(ours[name], values) for name, values in theirs.items()}
        if not found:
            report["failed"].append(f"probe_{precision}: nothing to compare")
            continue
        worst = max(found, key=found.get)
        report["parity"][precision] = {"tensors": len(found), "worst": worst, "distance": found[worst]}
        if not found[worst] <= allowed:
            report["failed"].append(f"probe_{precision}: {worst} differs by {found[worst]:.2e}, more than {allowed:.2e}")


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
        killed = name == "train_stopped" and code == "137"
        if code != "0" and not killed:
            report["failed"].append(f"{name}: exit code {code}")


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
    compare_probes(work, report)
    compare_runs(work, report)
    read_benches(work, report)
    (output / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    for failure in report["failed"]:
        print("FAILED", failure)
    sys.exit(1 if report["failed"] else 0)


if __name__ == "__main__":
    main()
