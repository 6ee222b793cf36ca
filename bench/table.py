"""The Markdown page made from the reports of bench/run.py."""

import math
import statistics


def _ratio(reports, other):
    """How many times faster the first contender is: the median over rounds taken side by side."""
    pairs = zip(reports, other, strict=True)
    return statistics.median(theirs["min"] / ours["min"] for ours, theirs in pairs)


def _share(reports, results):
    """Of the best rate of the machine that any report of the run has measured."""
    for rate in ("gflops", "gb_per_s"):
        if rate in reports[0]:
            peak = max(report["peak_" + rate] for row in results["rows"] for group in row["groups"]
                       for others in group.values() for report in others if rate in report)
            return f"{max(report[rate] for report in reports) / peak:.2f}"
    return ""


def _line(name, reports, first, results):
    seconds = [report["min"] for report in reports]
    last, base = reports[-1], first[-1]
    cells = [name, f"{min(seconds):.2f}", f"{statistics.median(seconds):.2f}",
             f"{statistics.median(report['tokens_per_s'] for report in reports):.1f}",
             "" if reports is first else f"{_ratio(first, reports):.2f}",
             _share(reports, results),
             f"{last['peak_rss_bytes'] / 2**30:.2f}",
             "" if reports is first else f"{base['peak_rss_bytes'] / last['peak_rss_bytes']:.2f}"]
    return "| " + " | ".join(cells) + " |"


HEADER = """\
| | min s | median s | tokens/s | time / first's | share of peak | memory GiB | first's / its |
|---|---|---|---|---|---|---|---|"""


def _same_tokens(groups):
    """A sentence on the ids that the contenders chose, where they tell."""
    chosen = {name: reports[-1]["ids"] for group in groups for name, reports in group.items()
              if "ids" in reports[-1]}
    if not chosen:
        return []
    first = next(iter(chosen.values()))
    lines = []
    for name, ids in list(chosen.items())[1:]:
        pairs = zip(ids, first, strict=True)
        same = next((i for i, (theirs, ours) in enumerate(pairs) if theirs != ours), len(first))
        lines.append(f"{name}: the first {same} of {len(first)} tokens are the same.")
    return lines


def _interval(values):
    """Median, and the order statistics that enclose the true one in 95 of 100 cases."""
    ordered = sorted(values)
    n = len(ordered)
    outside, k = 1 / 2**n, 0  # probability that at most k of n lie below the true median
    while outside + math.comb(n, k + 1) / 2**n <= 0.025:
        k += 1
        outside += math.comb(n, k) / 2**n
    return statistics.median(ordered), ordered[k], ordered[n - 1 - k]


def _compared(row):
    """A sentence for each pair of contenders that the row is about."""
    lines = []
    for one, other in row.get("pairs", []):
        group = next(group for group in row["groups"] if one in group and other in group)
        ratios = [a["min"] / b["min"] for a, b in zip(group[one], group[other], strict=True)]
        median, low, high = _interval(ratios)
        lines.append(f"{one} takes {median:.3f} of the time of {other} (median of {len(ratios)} pairs; "
                     f"95 % interval {low:.3f} to {high:.3f}).")
    return lines


def _memory(row):
    """What each of our contenders keeps for the backward pass, by operation."""
    last = {name: reports[-1] for group in row["groups"] for name, reports in group.items()
            if "saved_bytes" in reports[-1]}
    kinds = sorted({kind for report in last.values() for kind in report["saved_bytes"]})
    kept = {name: report["saved_bytes"] for name, report in last.items()}

    def line(label, value):
        return "| " + " | ".join([label, *(value(name) for name in last)]) + " |"

    def mib(count):
        return f"{count / 2**20:.1f}"

    return ["", line("MiB kept for the backward pass", str), "|---" * (len(last) + 1) + "|",
            *(line(kind, lambda name: mib(kept[name].get(kind, 0))) for kind in kinds),
            line("all", lambda name: mib(sum(kept[name].values()))),
            line("peak of a step beside weights and moments",
                 lambda name: mib(last[name]["step_bytes"])),
            line("trained parameters", lambda name: f"{last[name]['trained_parameters']:.0f}"), ""]


def _section(row, results):
    lines = [f"### {row['title']}", "", HEADER]
    shown = set()
    for group in row["groups"]:
        first = next(iter(group.values()))
        for name, reports in group.items():
            label = name if name not in shown else f"{name} (again)"
            shown.add(name)
            lines.append(_line(label, reports, first, results))
    lines += _memory(row) if row.get("memory") else [""]
    lines += ([row["note"]] if row["note"] else []) + _compared(row) + _same_tokens(row["groups"])
    lines += [f"{row['rounds']} rounds; load average of the machine before: {row['load']:.1f}.", ""]
    return lines


INTRODUCTION = """# Benchmarks

The same work, side by side: every program is started once, then they take turns, one step each, until
all rounds are done. Ratios are medians over the rounds. "PyTorch tuned" runs with the glibc settings
in bench/contenders.py, which spare it page faults. Made by:

    cmake -S . -B build -DFATHOM_BENCH=ON && cmake --build build
    bench/setup_peers.sh && .venv-bench/bin/python bench/run.py

Share of peak: of the best f32 GEMM rate that our kernels were measured at between the steps (work in
bf16 may pass 1), or of the memory bandwidth for decoding.

## Machine

| | |
|---|---|
"""


def page(results):
    commits = dict.fromkeys(row["commit"] for row in results["rows"])
    facts = results["machine"] | {"commit": ", ".join(commits), "threads": results["threads"], "date": results["date"]}
    lines = [INTRODUCTION + "\n".join(f"| {key} | {value} |" for key, value in facts.items())]
    lines += ["", "## Results", ""]
    for row in results["rows"]:
        lines += _section(row, results)
    lines += ["## Commands", "", "Each also runs by itself: `--steps 4` prints one report.", "", "```"]
    lines += sorted({command for row in results["rows"] for command in row["commands"]})
    return "\n".join(lines + ["```", ""])
