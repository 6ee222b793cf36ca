"""Makes tests/data/golden/methods/loreft-*: LoReFT on the golden LLaMA, in plain PyTorch.

Wu et al., 2024, equation 2: behind each chosen block, h <- h + R^T (W h + b - R h) at the first
and last positions of the prompt, R with orthonormal rows. After each AdamW step R becomes the
orthonormal factor of its rows, with a positive diagonal in the triangular one.
Needs torch, transformers and safetensors.
"""
import json
import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "data/golden"
PROMPTS = [10, 7, 1]  # the last one is too short for any edit
RANK, WIDTH, PREFIX, SUFFIX = 4, 64, 3, 4
LAYERS = [0, 2, 3]


def orthonormal(rows):
    q, r = torch.linalg.qr(rows.double().T)
    return (q * torch.sign(torch.diagonal(r))).T.float()


def positions(length):
    """The two lists of one prompt; a short one is edited in at most half of it at each end."""
    first, last = min(PREFIX, length // 2), min(SUFFIX, length // 2)
    return list(range(first)), list(range(length - last, length))


class Edit(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rotation = torch.nn.Parameter(orthonormal(torch.randn(RANK, WIDTH)))
        self.weight = torch.nn.Parameter(torch.randn(RANK, WIDTH) / 8)
        self.bias = torch.nn.Parameter(torch.randn(RANK) / 8)

    def forward(self, h):
        change = h @ self.weight.T + self.bias - h @ self.rotation.T
        return change @ self.rotation


def install(model, tied):
    """One hook for each layer; returns the edits by the names that their parameters have on disk."""
    edits = {}
    for layer in LAYERS:
        prefix = f"base_model.model.model.layers.{layer}.loreft"
        pair = [Edit()] * 2 if tied else [Edit(), Edit()]
        for edit, end in zip(pair, ("", "") if tied else (".prefix", ".suffix")):
            edits[prefix + end] = edit

        def hook(module, inputs, output, pair=pair):
            h = output[0] if isinstance(output, tuple) else output
            delta = torch.zeros_like(h)
            for row, length in enumerate(PROMPTS):
                for edit, where in zip(pair, positions(length)):
                    if where:
                        delta[row, where] = delta[row, where] + edit(h[row, where])
            return (h + delta, *output[1:]) if isinstance(output, tuple) else h + delta

        model.model.layers[layer].register_forward_hook(hook)
    return edits


def named(edits):
    return {f"{name}.{part}": value for name, edit in edits.items()
            for part, value in edit.named_parameters()}


def train(model, inputs, edits):
    parameters = named(edits)
    optimizer = torch.optim.AdamW(parameters.values(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1)
    losses, norms = [], []
    for step in range(4):
        optimizer.zero_grad()
        loss = run(model, inputs).loss
        losses.append(loss.item())
        if step == 3:
            break
        loss.backward()
        norm = torch.sqrt(sum(p.grad.double().pow(2).sum() for p in parameters.values())).item()
        norms.append(norm)
        for p in parameters.values():
            p.grad.mul_(min(1.0, 1.0 / (norm + 1e-6)))
        optimizer.step()
        for edit in edits.values():
            edit.rotation.data = orthonormal(edit.rotation.data)
    after = {name: [value.double().norm().item(), value.double().sum().item()]
             for name, value in parameters.items()}
    return {"losses": losses, "grad_norms_before_clip": norms, "params_after": after}


def run(model, inputs):
    return model(input_ids=inputs["input_ids"].long(),
                 attention_mask=inputs["attention_mask"].long(), labels=inputs["labels"].long())


def make(tied):
    torch.manual_seed(5 if tied else 6)
    folder = GOLDEN / f"methods/loreft-llama-{'tied' if tied else 'split'}"
    folder.mkdir(parents=True, exist_ok=True)
    model = AutoModelForCausalLM.from_pretrained(GOLDEN / "models/llama", dtype=torch.float32,
                                                 attn_implementation="eager")
    model.requires_grad_(False)
    inputs = load_file(GOLDEN / "models/llama/inputs.safetensors")
    for row, length in enumerate(PROMPTS):
        inputs["labels"][row, :length] = -100
    edits = install(model, tied)
    config = {"peft_type": "LOREFT", "r": RANK, "prefix": PREFIX, "suffix": SUFFIX, "tied": tied,
              "layers_to_transform": LAYERS}
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1))
    save_file(inputs, folder / "inputs.safetensors")
    save_file({name: value.detach().clone() for name, value in named(edits).items()},
              folder / "adapter_model.safetensors")
    result = run(model, inputs)
    result.loss.backward()
    save_file({"logits": result.logits.detach().contiguous()}, folder / "expected.safetensors")
    save_file({"grad." + name: value.grad.clone() for name, value in named(edits).items()},
              folder / "grads.safetensors")
    expected = {"loss": result.loss.item(), "versions": {"torch": torch.__version__},
                "train": train(model, inputs, edits)}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1))


if __name__ == "__main__":
    make(tied=True)
    make(tied=False)
