"""Trains the small byte-level BPE that the offline quickstart uses, on the shipped Shakespeare text.

    pip install tokenizers==0.23.3
    python data_tools/samples/shakespeare/make_tokenizer.py
"""

import json
import pathlib

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
VOCABULARY = 1024

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train(
    [str(HERE.parent / "tinyshakespeare.txt")],
    trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    ),
)
tokenizer.save(str(HERE / "tokenizer.json"), pretty=False)
(HERE / "tokenizer_config.json").write_text(
    json.dumps({"eos_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast"}, indent=2)
    + "\n"
)
