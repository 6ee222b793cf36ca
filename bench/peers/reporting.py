"""One JSON line per report: what every peer prints, and bench_step and bench_decode too."""

import json
import resource
import statistics
import sys
import time


def add_options(parser):
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4, help="timed runs of a report")
    parser.add_argument("--serve", action="store_true",
                        help="report once for each line of standard input")


def print_reports(options, run, describe):
    """Warms up, then times `--steps` calls of `run` for each report; `describe` adds to it."""
    for _ in range(options.warmup):
        run()
    while not options.serve or sys.stdin.readline():
        seconds = []
        for _ in range(options.steps):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        report = {"seconds": seconds, "min": min(seconds), "median": statistics.median(seconds),
                  "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
        print(json.dumps(report | describe(report)), flush=True)
        if not options.serve:
            return
