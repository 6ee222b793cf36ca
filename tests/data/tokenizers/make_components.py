"""Makes components.json: small tokenizers trained on golden/strings.json, one for each pipeline
component, and what the Python package `tokenizers` gives for the same strings.

    pip install tokenizers==0.23.3
    python make_components.py

Training breaks ties differently from run to run: another run is another file, equally valid.
"""

import json
import os
import random

from tokenizers import AddedToken, Regex, Tokenizer, models
from tokenizers import normalizers as nm
from tokenizers import pre_tokenizers as pre
from tokenizers import processors as post
from tokenizers import trainers

HERE = os.path.dirname(os.path.abspath(__file__))
STRINGS = json.load(open(os.path.join(HERE, "golden", "strings.json"), encoding="utf-8"))
CORPUS = [line for text in STRINGS for line in text.split("\n")]
EXTRA = [
    "<l> <l>", "  <l>  <b>  <r> x", "<r> <r> <l>", "a <sp> b", "<sp <sp> a<sp", "swords word_ word.",
    "e\u0301t\u0301e \u00e9t\u0301e", "'\u017f 'LL \u180ex\u180e", "the.the..The", "aaaa",
    "<|begin_of_text|>hi<|eot_id|>", "\u0344\u0958\u09cb\u0f73\u212b", "\u00e9\u6f22", " \u00e9 12345 x1",
]
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTE_LEVEL_DECODER = {
    "type": "ByteLevel",
    "add_prefix_space": True,
    "trim_offsets": True,
    "use_regex": True,
}
SENTENCEPIECE_DECODER = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}


def byte_level(pre_tokenizer, size=420):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    alphabet = pre.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False),
    )
    return tokenizer


def with_decoder(tokenizer, decoder=BYTE_LEVEL_DECODER):
    spec = json.loads(tokenizer.to_str())
    spec["decoder"] = decoder
    return spec


def characters(normalizer=None, pre_tokenizer=None, decoder=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    special = ["<unk>", "<s>", "</s>"]
    if model.get("byte_fallback"):
        special += ["<0x%02X>" % byte for byte in range(256)]
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=len(special) + 200,
            special_tokens=special,
            show_progress=False,
            limit_alphabet=80,
        ),
    )
    spec = with_decoder(tokenizer, decoder or SENTENCEPIECE_DECODER)
    spec["added_tokens"] = [t for t in spec["added_tokens"] if not t["content"].startswith("<0x")]
    return spec


def llama3():
    tokenizer = byte_level(
        pre.Sequence(
            [
                pre.Split(Regex(LLAMA3), "isolated"),
                pre.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        ),
        900,
    )
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in names])
    bos = tokenizer.token_to_id(names[0])
    tokenizer.post_processor = post.Sequence(
        [
            post.ByteLevel(trim_offsets=False),
            post.TemplateProcessing(
                single="<|begin_of_text|> $A",
                pair="<|begin_of_text|> $A <|begin_of_text|> $B",
                special_tokens=[(names[0], bos)],
            ),
        ]
    )
    spec = with_decoder(tokenizer)
    # Without every ninth merge, some words are tokens that merging no longer reaches.
    spec["model"]["ignore_merges"] = True
    merges = spec["model"]["merges"]
    spec["model"]["merges"] = [m for i, m in enumerate(merges) if i % 9 != 5]
    return spec


def added():
    tokenizer = byte_level(pre.ByteLevel(add_prefix_space=False))
    tokenizer.normalizer = nm.NFC()
    tokenizer.add_tokens(
        [
            AddedToken("\u00e9t\u0301e", normalized=True),
            AddedToken("word", single_word=True, normalized=True),
            AddedToken("<l>", lstrip=True, normalized=False),
            AddedToken("<r>", rstrip=True, normalized=True),
            AddedToken("<b>", lstrip=True, rstrip=True, normalized=False),
            AddedToken("<l><r>", normalized=False),
        ]
    )
    tokenizer.add_special_tokens(
        [
            AddedToken("<sp>", normalized=True, lstrip=True),
            AddedToken("<sp", normalized=False, single_word=True),
            AddedToken("aa", normalized=False),
        ]
    )
    return with_decoder(tokenizer)


def prefix_space():
    tokenizer = byte_level(pre.ByteLevel(add_prefix_space=True))
    tokenizer.post_processor = post.ByteLevel(trim_offsets=True, add_prefix_space=True)
    return with_decoder(tokenizer)


def tokenizers():
    sentencepiece = [nm.Prepend("▁"), nm.Replace(" ", "▁")]
    unknown = dict(unk_token="<unk>")
    fallback = dict(unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    yield "llama3", llama3()
    yield "added", added()
    yield "prefix_space", prefix_space()
    digits = pre.Digits(individual_digits=False)
    digits = pre.Sequence([digits, pre.ByteLevel(add_prefix_space=True)])
    yield "digits", with_decoder(byte_level(digits))
    literal = [pre.Split("the", "isolated"), pre.Split(".", "isolated")]
    literal.append(pre.ByteLevel(add_prefix_space=False))
    yield "literal", with_decoder(byte_level(pre.Sequence(literal)))
    yield "byte_fallback", characters(nm.Sequence(sentencepiece), **fallback)
    yield "fused_unknown", characters(nm.Sequence(sentencepiece), fuse_unk=True, **unknown)
    yield "unknown", characters(nm.Sequence(sentencepiece), **unknown)
    rewriting = [nm.NFC(), nm.Replace("th", "\u00f0\u2013"), nm.Prepend("▁x"), nm.Replace(" ", "▁")]
    yield "replace", characters(nm.Sequence(rewriting), **fallback)
    for scheme, split in [("always", True), ("first", False), ("never", True)]:
        metaspace = pre.Metaspace(prepend_scheme=scheme, split=split)
        decoder = dict(type="Metaspace", replacement="▁", prepend_scheme=scheme, split=split)
        yield "metaspace_" + scheme, characters(None, metaspace, decoder, **fallback)


def expectations(tokenizer, strings):
    for text in strings:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        yield dict(
            text=text,
            ids=encoding.ids,
            offsets=[value for pair in encoding.offsets for value in pair],
            decoded=tokenizer.decode(encoding.ids, skip_special_tokens=False),
            skipped=tokenizer.decode(encoding.ids, skip_special_tokens=True),
        )


def main():
    random.seed(5)
    cases = []
    for name, spec in tokenizers():
        short = [text for text in STRINGS if len(text) < 200]
        strings = short if name == "llama3" else random.sample(short, 60)
        tokenizer = Tokenizer.from_str(json.dumps(spec))
        found = list(expectations(tokenizer, strings + EXTRA))
        cases.append(dict(name=name, tokenizer=spec, expected=found))
    with open(os.path.join(HERE, "components.json"), "w", encoding="utf-8") as out:
        json.dump(cases, out, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main()
