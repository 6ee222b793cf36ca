"""What the training peers share: models, data, and the optimizer's update."""

import argparse

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import reporting
from divergences import DIVERGENCES


def parse(description, teacher=False, adapter=False):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--student", required=True, help="folder with the model's config.json")
    if teacher:
        parser.add_argument("--teacher", required=True)
        parser.add_argument("--teacher-dtype", choices=["f32", "bf16"], default="f32")
        parser.add_argument("--divergence", choices=list(DIVERGENCES), default="forward_kl")
        parser.add_argument("--method", choices=["plain", "mta", "fdd"], default="plain")
    if adapter:
        parser.add_argument("--rank", type=int, default=8)
        parser.add_argument("--targets", required=True, help="ends of module names")
        parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=256)
    reporting.add_options(parser)
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
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.dim() == 2]
    vectors = [p for p in trained if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-4, fused=True)


def update(model, optimizer):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def language_model_step(model, optimizer, ids, labels):
    """A function that takes one optimizer step on the cross-entropy and returns it."""

    def step():
        logits = model(input_ids=ids, use_cache=False).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        loss.backward()
        update(model, optimizer)
        return loss.item()

    return step


def report_steps(options, step, tokens, **facts):
    losses = []
    reporting.print_reports(options, lambda: losses.append(step()), lambda report: {
        "tokens_per_s": tokens / report["median"], "loss": losses[-1], **facts})
