#!/usr/bin/env python3
"""Writes golden.json: what spaCy makes of some three hundred texts (see SOURCE.md).

    make_golden.py        needs bench/spans/requirements.txt
"""

import json
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
sys.path.insert(0, str(REPOSITORY / "data_tools/spans"))
import spacy_spans  # noqa: E402

SAMPLES = REPOSITORY / "data_tools/samples"


def dolly(count, longest):
    lines = (SAMPLES / "dolly.jsonl").read_text("utf-8").splitlines()
    texts = [text for line in lines for text in json.loads(line).values() if len(text) <= longest]
    return random.Random(1).sample(texts, count)


def shakespeare(count, longest):
    speeches = (SAMPLES / "tinyshakespeare.txt").read_text("utf-8").split("\n\n")
    return random.Random(2).sample([s for s in speeches if len(s) <= longest], count)


def lexeme(token):
    """The form and the ids of its features; 64 bits, so in hexadecimal."""
    ids = (token.norm, token.prefix, token.suffix, token.shape)
    return (token.text, *(f"{i:x}" for i in ids))


def main():
    nlp = spacy_spans.load()
    texts = json.loads((HERE / "own_texts.json").read_text("utf-8"))
    texts += dolly(180, 500) + shakespeare(70, 400)
    lexemes, records = {}, []
    for doc in nlp.pipe(texts):
        analysis = spacy_spans.analysis(doc)
        forms = [lexemes.setdefault(lexeme(token), len(lexemes)) for token in doc]
        tokens = [[form, *(int(v) if isinstance(v, bool) else v for v in token)]
                  for form, token in zip(forms, analysis["tokens"])]
        records.append({**analysis, "text": doc.text, "tokens": tokens})
    lines = ",\n".join(json.dumps(r, separators=(",", ":"), ensure_ascii=False) for r in records)
    head = json.dumps(list(lexemes), separators=(",", ":"), ensure_ascii=False)
    golden = f'{{"lexemes":{head},\n"texts":[\n{lines}\n]}}\n'
    (HERE / "golden.json").write_text(golden, "utf-8")


if __name__ == "__main__":
    main()
