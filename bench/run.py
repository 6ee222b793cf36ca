"""Runs the benchmarks and writes bench/results/<date>.json and docs/benchmarks.md.

    bench/setup_peers.sh && .venv-bench/bin/python bench/run.py

About half an hour on two cores, on a machine that does nothing else.
"""

import argparse
import datetime
import json
import os
import pathlib
import sys

import contenders
import machine
import rows
import table

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build",
                        help="build folder, configured with -DFATHOM_BENCH=ON")
    parser.add_argument("--models", type=pathlib.Path, help="where setup_peers.sh put SmolLM2",
                        default=REPOSITORY / ".venv-bench" / "models")
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--rounds", type=int, help="instead of each row's own number")
    parser.add_argument("--only", nargs="+", default=[], help="names of rows")
    parser.add_argument("--add-to", type=pathlib.Path, metavar="FILE",
                        help="earlier results of this machine: their other rows are kept")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and stop")
    parser.add_argument("--page", type=pathlib.Path, default=REPOSITORY / "docs" / "benchmarks.md")
    parser.add_argument("--results", type=pathlib.Path, default=REPOSITORY / "bench" / "results")
    return parser.parse_args()


def run_row(row, options):
    rounds = options.rounds or row.rounds
    load = machine.load()
    print(f"{row.name}: {row.title} (load {load:.1f})", file=sys.stderr, flush=True)
    groups = [contenders.alternate(group, rounds, row.warmups) for group in row.groups]
    commands = [contender.shown() for group in row.groups for contender in group]
    return {"name": row.name, "title": row.title, "note": row.note, "rounds": rounds, "load": load,
            "pairs": row.pairs, "memory": row.memory, "commit": machine.commit(REPOSITORY),
            "groups": groups, "commands": [shorten(command, options) for command in commands]}


def shorten(command, options):
    """Paths as they are typed in the repository."""
    for path, name in ((options.build, "build"), (options.models, ".venv-bench/models"),
                       (sys.executable, ".venv-bench/bin/python"), (REPOSITORY, ".")):
        command = command.replace(str(path), name)
    return command.replace("./bench", "bench")


def start(options):
    """The results to fill and the file that they go to."""
    here = machine.describe()
    if not options.add_to:
        name = datetime.datetime.now().strftime("%Y-%m-%d-%H%M") + ".json"
        return {"date": datetime.date.today().isoformat(), "threads": options.threads,
                "machine": here, "rows": []}, options.results / name
    results = json.loads(options.add_to.read_text())
    for key in ("cpu", "cores", "packages"):
        if results["machine"][key] != here[key]:
            raise SystemExit(f"{options.add_to}: its {key} is {results['machine'][key]}, "
                             f"not {here[key]}: rows of one table are measured alike")
    return results, options.add_to


def main():
    options = parse()
    setup = rows.Setup(options.build.resolve(), options.models.resolve(), options.threads,
                       machine.has_bf16_dot_products())
    chosen = [row for row in rows.all_rows(setup) if not options.only or row.name in options.only]
    if options.list or not chosen:
        print("\n".join(row.name for row in rows.all_rows(setup)))
        return 0 if options.list else 2
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    results, file = start(options)
    order = [row.name for row in rows.all_rows(setup)]
    for row in chosen:
        others = [done for done in results["rows"] if done["name"] != row.name]
        results["rows"] = sorted([*others, run_row(row, options)],
                                 key=lambda done: order.index(done["name"]))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(results, indent=1) + "\n")
        options.page.write_text(table.page(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
