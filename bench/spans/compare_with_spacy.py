"""Compares span extraction with spaCy itself, token for token, and their speeds on one core.

    python -m venv .venv-spans && .venv-spans/bin/pip install -r bench/spans/requirements.txt
    .venv-spans/bin/python bench/spans/compare_with_spacy.py FILE...

FILEs are .jsonl or .json (every text in them is taken), or .txt (every paragraph). Prints the counts
of what differs, then tokens a second. Exit code 1 if anything differs.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "data_tools/spans"))
import spacy_spans  # noqa: E402  (after the thread limits)

FIELDS = ("begin", "end", "space", "tag", "head", "dep", "pos", "sentence start")


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def texts_of(path):
    text = path.read_text("utf-8")
    if path.suffix == ".jsonl":
        return [s for line in text.splitlines() if line.strip() for s in strings(json.loads(line))]
    if path.suffix == ".json":
        return list(strings(json.loads(text)))
    return [part for part in text.split("\n\n" if "\n\n" in text else "\n") if part.strip()]


def run_ours(options, texts, folder):
    texts_file, analyses = folder / "texts.jsonl", folder / "analyses.jsonl"
    texts_file.write_text("".join(json.dumps(t) + "\n" for t in texts), "ascii")
    command = [options.build / "bench/spans/bench_spans", options.model, texts_file]
    report = json.loads(subprocess.check_output(command + ["--analyses", analyses]))
    with open(analyses, encoding="utf-8") as lines:
        return report["min"], [json.loads(line) for line in lines]


def run_spacy(nlp, texts):
    begin = time.perf_counter()
    docs = list(nlp.pipe(texts, batch_size=256))
    return time.perf_counter() - begin, docs


def compare(ours, doc, counts, examples):
    theirs = spacy_spans.analysis(doc)
    counts["texts"] += 1
    counts["tokens"] += len(theirs["tokens"])
    if [t[:2] for t in ours["tokens"]] != [t[:2] for t in theirs["tokens"]]:
        counts["texts cut otherwise"] += 1
        examples["text"].append(doc.text[:200])
        return
    for i, (a, b) in enumerate(zip(ours["tokens"], theirs["tokens"])):
        for name, x, y in zip(FIELDS, a, b):
            if x != y:
                counts[name] += 1
                examples[name].append((doc[i].text, x, y, doc[max(0, i - 5):i + 5].text))
    for kind in ("pattern", "group"):
        counts[kind + " phrases"] += len(theirs[kind])
        if ours[kind] != theirs[kind]:
            counts[kind + " phrases differ"] += 1
            examples[kind].append(doc.text[:200])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build")
    parser.add_argument("--model", type=pathlib.Path,
                        default=REPOSITORY / "data/spans/en_core_web_sm.h5")
    options = parser.parse_args()
    nlp = spacy_spans.load()
    differ = False
    for path in options.files:
        texts = [t for t in texts_of(path) if len(t.encode()) <= 1 << 20]
        counts, examples = collections.Counter(), collections.defaultdict(list)
        with tempfile.TemporaryDirectory() as folder:
            our_seconds, analyses = run_ours(options, texts, pathlib.Path(folder))
        their_seconds, docs = run_spacy(nlp, texts)
        for ours, doc in zip(analyses, docs):
            compare(ours, doc, counts, examples)
        tokens = counts["tokens"]
        print(f"{path.name}: {dict(counts)}; tokens/s: {tokens / our_seconds:,.0f} against "
              f"{tokens / their_seconds:,.0f}, ratio {their_seconds / our_seconds:.1f}", flush=True)
        for name, found in examples.items():
            differ = True
            print(f"  {name}: {found[:4]}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
