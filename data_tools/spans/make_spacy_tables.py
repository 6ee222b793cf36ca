#!/usr/bin/env python3
"""Writes spacy_tables.json: what the model's arithmetic takes from spaCy's source, not from its package.

    make_spacy_tables.py OUTPUT        needs spacy 3.8; run it again only for another spaCy release

spaCy is Copyright (C) 2016-2024 ExplosionAI GmbH and others, under the MIT licence (spacy_tables.LICENSE).
"""

import json
import sys

import spacy
from spacy.lang.norm_exceptions import BASE_NORMS
from spacy.symbols import IDS


def main():
    tables = {
        "spacy_version": spacy.__version__,
        # Strings whose id is a small number instead of a hash.
        "symbols": {name: value for name, value in sorted(IDS.items()) if name},
        # Normal forms of tokens that the package's own table does not list.
        "base_norms": dict(sorted(BASE_NORMS.items())),
    }
    with open(sys.argv[1], "w", encoding="ascii") as out:
        json.dump(tables, out, indent=0, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main()
