"""Adapters between Fathom and peft, both ways: `python peft_round_trip.py build/bin/fathom`.

peft to Fathom: the golden adapter folders of tests/data, run by peft and by `fathom probe`.
Fathom to peft: a few steps of training, exported as a folder (run by peft and by `fathom probe
--adapter.path`) and merged (run by transformers and by `fathom probe`). Prints the largest
difference of logits where the attention mask is 1; the exit code says whether all of them are
below 1e-4. Needs torch, transformers, peft and safetensors.
"""
import pathlib
import subprocess
import sys
import tempfile

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
GOLDEN = DATA / "golden/models"
TOKENS = DATA / "token_files/h5py.h5"
LIMIT = 1e-4  # f32 logits of a few units through four layers, summed in another order

TRAINED = {
    "lora": ["kind=lora", "rank=4", "alpha=8", "targets=all-linear"],
    "lora rslora, layers 1,3": ["kind=lora", "rank=4", "rslora=true", "layers=1,3"],
    "lora all-linear, layers 0,2": ["kind=lora", "rank=4", "targets=all-linear", "layers=0,2"],
    "lora, two expressions": ["kind=lora", "rank=4",
                              r"targets=regex:.*(o_proj|c_attn),regex:.*\.[13]\..*(q_proj|c_fc)"],
    "dora regex, layers 1,2": ["kind=dora", "rank=4", "layers=1,2",
                               r"targets=regex:.*(q_proj|c_attn|up_proj|c_fc)"],
    "vera all-linear, layers 1": ["kind=vera", "rank=16", "targets=all-linear", "layers=1",
                                 "d_initial=0.5"],
    "dora": ["kind=dora", "rank=4", "alpha=8", "targets=all-linear"],
    "vera": ["kind=vera", "rank=16", "targets=all-linear", "d_initial=0.5"],
}


def fathom(*arguments):
    result = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"fathom {' '.join(map(str, arguments))}\n{result.stderr}")


def logits_of_fathom(model, output, adapter=None):
    extra = [f"--adapter.path={adapter}"] if adapter else []
    fathom("probe", f"--model.path={model}", f"--input={inputs_path(model)}",
           f"--output={output}", "--hidden=false", *extra)
    return load_file(output / "expected.safetensors")["logits"]


def inputs_path(model):
    return next(path for path in (model / "inputs.safetensors",
                                  GOLDEN / model.name / "inputs.safetensors") if path.exists())


def logits_of_transformers(model, inputs, adapter=None):
    network = AutoModelForCausalLM.from_pretrained(
        model, dtype=torch.float32, attn_implementation="eager")
    if adapter:
        network = PeftModel.from_pretrained(network, adapter)
    with torch.no_grad():
        return network.eval()(input_ids=inputs["input_ids"].long(),
                              attention_mask=inputs["attention_mask"].long()).logits


def train(model, run, keys):
    fathom("train", f"--model.path={model}", f"--run.dir={run}", f"--data.train={TOKENS}",
           "--run.steps=5", "--optim.lr=0.02", "--batch.micro_batch=3", "--batch.micro_batches=1",
           "--schedule.kind=constant", "--run.quiet", *(f"--adapter.{key}" for key in keys))


def main():
    worst = 0.0

    def report(name, ours, theirs, inputs):
        nonlocal worst
        real = inputs["attention_mask"].bool()
        difference = (ours - theirs)[real].abs().max().item()
        worst = max(worst, difference)
        print(f"{name:52} {difference:.2e}")

    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        for family in ("gpt2", "llama"):
            model = GOLDEN / family
            inputs = load_file(model / "inputs.safetensors")
            base = logits_of_transformers(model, inputs)
            for kind in ("lora", "dora", "vera"):
                adapter = model / f"adapter-{kind}"
                report(f"{family} {kind}: peft's folder here",
                       logits_of_fathom(model, scratch / "probe", adapter),
                       logits_of_transformers(model, inputs, adapter), inputs)
            for number, (name, keys) in enumerate(TRAINED.items()):
                run, peft, merged = (scratch / f"{part}{family}{number}" / family
                                     for part in ("run", "peft", "merged"))
                train(model, run, keys)
                fathom("checkpoint", "export", run, f"--output={peft}", "--adapter=peft")
                fathom("checkpoint", "export", run, f"--output={merged}")
                theirs = logits_of_transformers(model, inputs, peft)
                change = (theirs - base).abs().max().item()
                assert change > 0.1, f"{name}: training changed nothing ({change})"
                report(f"{family} {name}: our folder in peft",
                       logits_of_fathom(model, scratch / "probe", peft), theirs, inputs)
                report(f"{family} {name}: merged, in transformers",
                       logits_of_transformers(merged, inputs), theirs, inputs)
                report(f"{family} {name}: merged, here",
                       logits_of_fathom(merged, scratch / "probe"), theirs, inputs)
    return 0 if worst < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
