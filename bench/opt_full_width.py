"""One step of MTA on OPT 6.7B -> 1.3B at full width and an eighth of the depth (4 and 3 blocks), with random weights:
sizes, partition and messages of configs/mta-opt.ini on two ranks of this machine, beside what --dry-run foresees.

    python3 bench/opt_full_width.py [--build build] [--work data/opt-full-width] [--context 128]

Needs torch and transformers (bench/requirements.txt), some 6 GiB of memory and as much disk; the files that it makes
stay in the work folder."""

import argparse
import json
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKENIZERS = ROOT / "tests" / "data" / "tokenizers"
BLOCKS = {"opt-6.7b": 4, "opt-1.3b": 3}
RANKS = 2


def make_model(name, folder):
    """The published config with fewer blocks, random weights in bf16, and OPT's tokenizer."""
    if (folder / "model.safetensors").exists():
        return
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    torch.manual_seed(1)
    config = AutoConfig.from_pretrained(ROOT / "configs" / "models" / name)
    config.num_hidden_layers = BLOCKS[name]
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder, max_shard_size="8GB")
    for file in ("vocab.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZERS / "opt" / file, folder / file)
    shutil.copy(TOKENIZERS / "gpt2" / "merges.txt", folder / "merges.txt")  # OPT's are the same


def make_data(fathom, work, context):
    tokens, spans = work / "train.h5", work / "spans.h5"
    if not tokens.exists():
        subprocess.run([fathom, "tokenize", ROOT / "data_tools/samples/dolly.jsonl", tokens,
                        f"--tokenizer={work / 'opt-1.3b'}", f"--context={context}", "--overlong=truncate",
                        "--template=alpaca_train"], check=True)
    if not spans.exists():
        model = ROOT / "data/spans/en_core_web_sm.h5"
        subprocess.run([fathom, "spans", "build", f"--tokens={tokens}", f"--tokenizer={work / 'opt-1.3b'}",
                        f"--span-model={model}", f"--output={spans}"], check=True)


def recipe(work, context):
    """What differs from the published settings: depth, grid and length."""
    values = {"run.dir": work / "run", "run.steps": 1, "run.eval_every": 0, "run.save_every": 0, "run.threads": 1,
              "run.resume": "never", "model.path": work / "opt-1.3b", "teacher.path": work / "opt-6.7b",
              "data.train": work / "train.h5", "data.eval": "", "data.context": context,
              "spans.train": work / "spans.h5", "spans.model": "", "distill.method": "off_policy",
              "distill.max_new": 256, "mta.student_layers": "2,3", "mta.teacher_layers": "3,4",
              "batch.micro_batch": 1, "batch.micro_batches": 4, "grid.tp": 1, "grid.pp": RANKS, "grid.dp": 1,
              "log.tensorboard": "false"}
    return ["train", ROOT / "configs/mta-opt.ini", *(f"--{key}={value}" for key, value in values.items())]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "data/opt-full-width")
    parser.add_argument("--context", type=int, default=128)
    options = parser.parse_args()
    fathom = options.build / "bin" / "fathom"
    options.work.mkdir(parents=True, exist_ok=True)
    for name in BLOCKS:
        make_model(name, options.work / name)
    make_data(fathom, options.work, options.context)
    command = recipe(options.work, options.context)
    shutil.rmtree(options.work / "run", ignore_errors=True)

    foreseen = subprocess.run([fathom, *command, "--dry-run"], check=True, capture_output=True, text=True).stdout
    print(foreseen)
    subprocess.run([ROOT / "launch/fathom-mpirun", "-n", str(RANKS), fathom, *command], check=True)
    lines = (options.work / "run/metrics.jsonl").read_text().splitlines()
    step = next(entry for entry in map(json.loads, lines) if entry["kind"] == "step")
    tokens = step["tokens"] / (4 * options.context)  # of those that the dry run counts
    messages = float(re.search(r"messages between stages: .* ([0-9.]+) MiB", foreseen).group(1))
    memory = max(float(line.split()[-1]) for line in foreseen.splitlines() if re.match(r" +\d+ .*\d$", line))
    print(json.dumps(step))
    print(f"step: {step['seconds']:.2f} s for {step['tokens']} tokens, loss {step['loss']:.3f}")
    # Pages of the mapped weight files count as resident, too.
    print(f"memory of the largest rank: {step['memory_bytes'] / 2**20:.0f} MiB, of which weights, activations and logits "
          f"were foreseen with {memory:.0f} MiB")
    print(f"messages: {step['more']['stage_bytes'] / 2**20:.2f} MiB sent, {messages * tokens:.2f} MiB foreseen for so many tokens")


if __name__ == "__main__":
    main()
