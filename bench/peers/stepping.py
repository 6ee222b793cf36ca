"""What every training peer shares: its options, its timing, and one JSON line per report."""

import argparse
import json
import resource
import statistics
import sys
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM


def parse(description, teacher=False):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--student", required=True, help="folder with the model's config.json")
    if teacher:
        parser.add_argument("--teacher", required=True)
        parser.add_argument("--teacher-dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--serve", action="store_true",
                        help="report once for each line of standard input")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    return options


def make_model(folder, dtype=torch.float32):
    config = AutoConfig.from_pretrained(folder)
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=dtype)


def random_batch(options, vocab):
    """Ids and labels, already shifted: every position is supervised, as in bench_step."""
    ids = torch.randint(0, vocab, (options.batch, options.length + 1))
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def make_optimizer(model):
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-4, fused=True)


def update(model, optimizer):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def peak_rss_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def report_steps(options, step, tokens):
    """Warms up, then prints a report of --steps steps, or with --serve one for each line read."""
    for _ in range(options.warmup):
        step()
    while not options.serve or sys.stdin.readline():
        seconds, loss = [], 0.0
        for _ in range(options.steps):
            start = time.perf_counter()
            loss = step()
            seconds.append(time.perf_counter() - start)
        median = statistics.median(seconds)
        print(json.dumps({"seconds": seconds, "min": min(seconds), "median": median,
                          "tokens_per_s": tokens / median, "loss": loss,
                          "peak_rss_bytes": peak_rss_bytes()}), flush=True)
        if not options.serve:
            return
