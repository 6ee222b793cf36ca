"""Writes scores.json and stems.txt: what the rouge-score package and NLTK give for real texts.

    pip install rouge-score==0.1.2 nltk==3.10.4
    python tests/data/rouge/make_golden.py
"""

import json
import pathlib
import random
import re

from nltk.stem.porter import PorterStemmer
from rouge_score import rouge_scorer

HERE = pathlib.Path(__file__).resolve().parent
SAMPLES = HERE.parents[2] / "data_tools" / "samples"
PAIRS = 500
LONG_PAIRS = 30  # more words than fit into one machine word, and into two

CRAFTED = [
    ("", "something"), ("something", ""), ("...", "!?"), ("same words", "Same, WORDS!"),
    ("สวัสดี", "สวัสดี"), ("Café", "cafe"), ("İstanbul", "i stanbul"), ("273 \u212a", "273 k"),
    ("don't", "don t"), ("3.14 and 2,718", "3 14 and 2 718"), ("a\nb\tc\u00a0d", "a b c d"),
    ("flies dies died tied", "fli die die tie"), ("e\u0301te", "ete"), ("\U0001f600 x", "x"),
    ("generalizations generally generous", "general generously generic"),
]


def records():
    lines = (SAMPLES / "dolly.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def paraphrase(text, generator):
    """The sentences in another order, with a third of the words gone."""
    sentences = re.split(r"(?<=[.!?])\s+", text)
    generator.shuffle(sentences)
    return " ".join(word for word in " ".join(sentences).split() if generator.random() < 0.67)


def pairs(generator):
    """(answer, references)"""
    every = records()
    short = [r for r in every if 20 < len(r["response"]) < 220 and len(r["instruction"]) < 120]
    long = [r["response"] for r in every if 900 < len(r["response"]) < 1500]
    chosen = [(answer, [reference]) for answer, reference in CRAFTED]
    chosen += [(a, [b]) for a, b in zip(long[:LONG_PAIRS // 2], long[LONG_PAIRS // 2:])]
    chosen += [(paraphrase(text, generator), [text]) for text in long[:LONG_PAIRS // 2]]
    while len(chosen) < PAIRS:
        number = len(chosen)
        record, other = short[number], short[number - 1]
        references = [[record["response"]], [other["response"], record["response"]],
                      [paraphrase(record["response"], generator)]][number % 3]
        answer = record["instruction"] if number % 3 < 2 else record["response"]
        chosen.append((answer, references))
    return chosen


def main():
    scorer = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=True)
    scores = []
    for answer, references in pairs(random.Random(1)):
        best = max(scorer.score(reference, answer)["rougeL"].fmeasure for reference in references)
        scores.append({"answer": answer, "references": references, "rouge_l": best})
    lines = ",\n".join(json.dumps(score, ensure_ascii=False) for score in scores)
    (HERE / "scores.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")

    stemmer = PorterStemmer()
    text = (SAMPLES / "dolly.jsonl").read_text(encoding="utf-8").lower()
    words = sorted(set(re.findall(r"[a-z]{5,}", text)))
    (HERE / "stems.txt").write_text("".join(f"{word} {stemmer.stem(word)}\n" for word in words))


if __name__ == "__main__":
    main()
