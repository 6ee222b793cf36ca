#!/usr/bin/env python3
"""Writes a span file with spaCy itself: what `fathom spans build` is held against.

    python3 -m venv .venv-spans && .venv-spans/bin/pip install -r data_tools/spans/requirements.txt
    .venv-spans/bin/python data_tools/spans/spacy_span_file.py --tokens train.h5 --tokenizer smollm2 \\
        --span-model data/spans/en_core_web_sm.h5 --output oracle.h5
    fathom spans compare spans.h5 oracle.h5

Nothing here comes from Fathom but the token file: the tokens' bytes are read from the tokenizer's
own files, words and phrases are spaCy's, and the rules of data_tools/FORMAT.md are written once more.
"""

import argparse
import functools
import json
import os
import pathlib
import sys
import zlib

import h5py
import numpy as np
import spacy

import spacy_spans

# Unicode's White_Space.
WHITE = set("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {
    chr(c) for c in range(0x2000, 0x200B)}


@functools.cache
def byte_alphabet():
    """GPT-2's printable character of each byte, turned round."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(0x100 + i): b for i, b in enumerate(rest)}


def bytes_of(token, byte_level):
    if byte_level:
        alphabet = byte_alphabet()
        known = all(c in alphabet for c in token)
        return bytes(alphabet[c] for c in token) if known else token.encode()
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("\u2581", " ").encode()


class Tokens:
    """What each id of a tokenizer spells; None for control tokens."""

    def __init__(self, folder):
        data = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        byte_level = "ByteLevel" in json.dumps(data["decoder"])
        self.spelling = {i: bytes_of(t, byte_level) for t, i in data["model"]["vocab"].items()}
        for token in data["added_tokens"]:
            self.spelling[token["id"]] = None if token["special"] else token["content"].encode()

    def text(self, ids):
        """The text of ids and each id's range of bytes."""
        text, ranges, parted = b"", [], False
        for i in ids:
            own = self.spelling[int(i)]
            if own is None:
                parted = True
                own = b""
            if not text:
                own = own.lstrip(b" \t\n\v\f\r")
            elif own and parted:
                text += b"\n"
            if own:
                parted = False
            ranges.append((len(text), len(text) + len(own)))
            text += own
        return text, ranges


def characters(text):
    """The text as a str, one U+FFFD for each maximal invalid sequence, and where each character
    begins in bytes (and the end)."""
    out, offsets, at = [], [], 0
    while at < len(text):
        try:
            piece, bad = text[at:].decode("utf-8"), 0
        except UnicodeDecodeError as error:
            piece, bad = text[at:at + error.start].decode("utf-8"), error.end - error.start
        for character in piece:
            offsets.append(at)
            at += len(character.encode())
        out.append(piece)
        if bad:
            out.append("\ufffd")
            offsets.append(at)
            at += bad
    return "".join(out), [*offsets, len(text)]


def stripped(text, begin, end):
    """The range without whole white-space characters at its ends."""
    def white(part):
        try:
            return part.decode("utf-8") in WHITE if part else False
        except UnicodeDecodeError:
            return False

    def one(ends):
        for n in (1, 2, 3):
            if begin + n <= end and white(text[begin:begin + n] if ends == 0 else text[end - n:end]):
                return n
        return 0

    while n := one(0):
        begin += n
    while n := one(1):
        end -= n
    return begin, end


def words_of(doc, offsets, phrases, in_phrases):
    tokens = [(offsets[t.idx], offsets[t.idx + len(t)]) for t in doc if not t.is_space]
    if not in_phrases:
        return tokens
    every = [(offsets[t.idx], offsets[t.idx + len(t)], t.is_space) for t in doc]
    words = []
    for begin, end, _ in phrases:
        inside = [t for t in every if begin <= t[0] and t[1] <= end]
        for i, (first, last, space) in enumerate(inside):
            if not space and (not words or first >= words[-1][1]):
                words.append((first, inside[i + 1][0] if i + 1 < len(inside) else last))
    return words


class Mapper:
    """Ranges of bytes to ranges of ids, token by token."""

    def __init__(self, text, ranges, first):
        self.tokens = [(first + i, *stripped(text, b, e)) for i, (b, e) in enumerate(ranges)]
        self.tokens = [t for t in self.tokens if t[1] < t[2]]

    def span(self, begin, end):
        inside = [i for i, b, e in self.tokens if begin <= b and e <= end]
        return (inside[0], inside[-1] + 1) if inside else None


def spans_of(doc, offsets, mapper, options):
    """The words and the (begin, end, kind) phrases of one text."""
    verbs = spacy_spans.verb_patterns(doc) if options.vp == "pattern" else spacy_spans.verb_groups(doc)
    found = spacy_spans.phrases(doc, verbs, offsets)
    words = words_of(doc, offsets, found, options.words == "in-phrases")
    words = [span for word in words if (span := mapper.span(*word))]
    phrases = []
    for begin, end, kind in found:
        span = mapper.span(begin, end)
        if span and not (phrases and phrases[-1][:2] == span):
            phrases.append((*span, kind))
    return words, phrases


def find_all(nlp, tokens, file, options):
    """For each record the words and phrases of its prompt and response."""
    offsets, prompts, ids = file["offsets"][:], file["prompt_lengths"][:], file["ids"][:]
    parts = []
    for record, prompt in enumerate(prompts):
        own = ids[offsets[record]:offsets[record + 1]]
        for first, part in ((0, own[:prompt]), (int(prompt), own[prompt:])):
            text, ranges = tokens.text(part)
            parts.append((record, *characters(text), Mapper(text, ranges, first)))
    words, phrases = [[] for _ in prompts], [[] for _ in prompts]
    docs = nlp.pipe((text for _, text, _, _ in parts), batch_size=256)
    for (record, _, starts, mapper), doc in zip(parts, docs):
        more_words, more_phrases = spans_of(doc, starts, mapper, options)
        words[record] += more_words
        phrases[record] += more_phrases
    checksums = [zlib.crc32(ids[b:e].astype("<i4").tobytes()) for b, e in zip(offsets, offsets[1:])]
    return words, phrases, checksums


def write(path, attributes, lengths, prompts, checksums, words, phrases):
    narrow = max(lengths) <= 65535
    packed = {"chunks": True, "shuffle": True, "compression": 4}

    def put(name, values, dtype, shape):
        array = np.array(values, dtype=dtype).reshape(shape)
        file.create_dataset(name, data=array, **(packed if array.size else {}))

    part = path.with_name(path.name + ".part")
    with h5py.File(part, "w") as file:
        file.attrs.update(attributes)
        put("lengths", lengths, "<u4", -1)
        put("prompt_lengths", prompts, "<u4", -1)
        put("ids_crc32", checksums, "<u4", -1)
        pairs = "<u2" if narrow else "<u4"
        for name, lists in (("word", words), ("phrase", phrases)):
            ends = np.cumsum([0] + [len(spans) for spans in lists])
            put(f"{name}_offsets", ends, "<u8", -1)
            put(f"{name}s", [span[:2] for spans in lists for span in spans], pairs, (-1, 2))
        put("phrase_kinds", [span[2] for spans in phrases for span in spans], "u1", -1)
    os.replace(part, path)


def describe_model(nlp, path):
    """Name and hash of the exported model, which must be of the package that spaCy has loaded."""
    with h5py.File(path) as file:
        package, version = file.attrs["package"], file.attrs["package_version"]
        if version != nlp.meta["version"]:
            sys.exit(f"{path}: version {version}, spaCy has loaded {nlp.meta['version']}")
        return f"{package} {version}", file.attrs["sha256"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("tokens", "tokenizer", "span-model", "output"):
        arguments.add_argument("--" + name, type=pathlib.Path, required=True)
    arguments.add_argument("--vp", choices=["pattern", "group"], default="pattern")
    arguments.add_argument("--words", choices=["all", "in-phrases"], default="all")
    options = arguments.parse_args()

    nlp = spacy_spans.load()
    model, sha256 = describe_model(nlp, options.span_model)
    tokens = Tokens(options.tokenizer)
    with h5py.File(options.tokens) as file:
        words, phrases, checksums = find_all(nlp, tokens, file, options)
        attributes = {
            "format": "fathom.spans", "format_version": np.int64(1),
            "definition": f"words={options.words};np=noun_chunks;vp={options.vp};"
                          "sweep=containment;tokens=inside;1",
            "extractor": f"spacy {spacy.__version__}", "model": model, "model_sha256": sha256,
            "tokenizer_fingerprint": file.attrs["tokenizer_fingerprint"],
            "tokens_fingerprint": file.attrs["fingerprint"]}
        write(options.output, attributes, np.diff(file["offsets"][:]), file["prompt_lengths"][:],
              checksums, words, phrases)
    print(f"{options.output}: {len(words)} records, {sum(map(len, words))} words, "
          f"{sum(map(len, phrases))} phrases")


if __name__ == "__main__":
    main()
