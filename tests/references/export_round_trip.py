"""Checkpoints of every decoder family as transformers reads their exports:
`python export_round_trip.py build/bin/fathom`.

Each golden model is trained for one step whose learning rate is 0, so that its checkpoint holds the
golden weights, and exported as one file, in several, and in bf16. What transformers makes of the
folder is compared with the logits that it once made of the golden model; for bf16 with those that
it makes of the golden weights rounded to bf16. Prints the largest difference where the attention
mask is 1, and whether every tensor came back bit for bit; the exit code says whether all did and
all differences are below 5e-5. Needs torch, transformers and safetensors.
"""
import pathlib
import subprocess
import sys
import tempfile

import safetensors
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
GOLDEN = DATA / "golden/models"
TOKENS = DATA / "token_files/h5py.h5"
FAMILIES = ("gpt2", "opt", "opt-postln", "llama", "llama3", "mistral", "qwen2")
FORMS = {"one file": [], "several files": ["--max-shard-gib=0.00005"], "bf16": ["--dtype=bf16"]}
LIMIT = 5e-5  # f32 logits of a few units through four layers, summed in another order


def fathom(*arguments):
    result = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"fathom {' '.join(map(str, arguments))}\n{result.stderr}")


def save(model, run):
    fathom("train", f"--model.path={model}", f"--run.dir={run}", f"--data.train={TOKENS}",
           "--run.steps=1", "--schedule.warmup_steps=1", "--batch.micro_batch=3",
           "--batch.micro_batches=1", "--run.quiet")


def load(folder):
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()


def logits_of(network, inputs):
    with torch.no_grad():
        return network(input_ids=inputs["input_ids"].long(),
                       attention_mask=inputs["attention_mask"].long()).logits


def stored(folder):
    return {name: tensor for path in sorted(folder.glob("model*.safetensors"))
            for name, tensor in load_file(path).items()}


def check(family, form, options, run, output):
    """The largest difference of logits, and whether the golden tensors are stored as they were."""
    golden = GOLDEN / family
    inputs = load_file(golden / "inputs.safetensors")
    expected = load_file(golden / "expected.safetensors")["logits"]
    weights = stored(golden)
    fathom("checkpoint", "export", run, f"--output={output}", *options)
    if form == "bf16":
        weights = {name: tensor.bfloat16() for name, tensor in weights.items()}
        rounded = load(golden)
        for parameter in rounded.parameters():
            parameter.data = parameter.data.bfloat16().float()
        expected = logits_of(rounded, inputs)
    found = stored(output)
    several = len(list(output.glob("model-*.safetensors"))) > 1
    assert several == (form == "several files"), f"{family}: {list(output.iterdir())}"
    same = found.keys() == weights.keys() and all(
        found[name].dtype == tensor.dtype and torch.equal(found[name], tensor)
        for name, tensor in weights.items())
    real = inputs["attention_mask"].bool()
    return (logits_of(load(output), inputs) - expected)[real].abs().max().item(), same


def main():
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, "
          f"safetensors {safetensors.__version__}")
    good = True
    for family in FAMILIES:
        with tempfile.TemporaryDirectory() as scratch:
            run = pathlib.Path(scratch) / "run"
            save(GOLDEN / family, run)
            for form, options in FORMS.items():
                output = pathlib.Path(scratch) / form.replace(" ", "_")
                difference, same = check(family, form, options, run, output)
                good = good and same and difference < LIMIT
                print(f"{family:12} {form:14} {difference:.2e}  "
                      f"tensors {'equal' if same else 'DIFFER'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
