"""Makes tests/data/golden/methods/molex-llama: MoLEx on the golden LLaMA, in plain PyTorch.

Teo and Nguyen, 2025: with z the input of layer t and u_l layer l with its LoRA, the layer's output
is OWN u_t(z) + (1 - OWN) u_l(z). Layer l is the one that most real tokens of the batch score best
by z W_t (then the larger sum of softmax, then the lower index). Each gate W_t adds its balance term
L sum_i f_i P_i, f_i the share of tokens whose best layer is i and P_i their mean softmax; the mean
over gates is weighted with BALANCE. AdamW decays everything but the gates.
Needs torch, transformers and safetensors.
"""
import json
import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "data/golden"
FOLDER = GOLDEN / "methods/molex-llama"
RANK, ALPHA, OWN, BALANCE = 4, 8, 0.6, 0.5
PREFIX = "base_model.model.model.layers."


class LoraLinear(torch.nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.a = torch.nn.Parameter(torch.randn(RANK, base.in_features) / 8)
        self.b = torch.nn.Parameter(torch.randn(base.out_features, RANK) / 8)

    def forward(self, x):
        return self.base(x) + ALPHA / RANK * (x @ self.a.T @ self.b.T)


class Mixture:
    """Replaces the forward of every layer; keeps what the last pass chose and its balance terms."""

    def __init__(self, model):
        self.layers = model.model.layers
        self.own_forward = [layer.forward for layer in self.layers]
        self.parameters, self.gates = {}, []
        for t, layer in enumerate(self.layers):
            for name in ("q_proj", "v_proj"):
                lora = LoraLinear(getattr(layer.self_attn, name))
                setattr(layer.self_attn, name, lora)
                self.parameters[f"{PREFIX}{t}.self_attn.{name}.lora_A.weight"] = lora.a
                self.parameters[f"{PREFIX}{t}.self_attn.{name}.lora_B.weight"] = lora.b
            gate = torch.nn.Parameter(torch.randn(model.config.hidden_size, len(self.layers)) / 8)
            self.gates.append(gate)
            self.parameters[f"{PREFIX}{t}.molex.gate"] = gate
            layer.forward = lambda z, *args, t=t, **more: self.forward(t, z, *args, **more)

    def forward(self, t, z, *args, **more):
        scores = (z @ self.gates[t])[self.mask]
        probs = scores.softmax(-1)
        votes = torch.bincount(scores.argmax(-1), minlength=len(self.layers))
        best = max(range(len(self.layers)),
                   key=lambda i: (votes[i].item(), probs[:, i].sum().item(), -i))
        self.choices.append(best)
        shares = votes / len(scores)
        self.balance.append(len(self.layers) * (shares * probs.mean(0)).sum())
        own = self.own_forward[t](z, *args, **more)
        other = self.own_forward[best](z, *args, **more)
        return OWN * own + (1 - OWN) * other

    def run(self, model, inputs):
        self.mask = inputs["attention_mask"].bool()
        self.choices, self.balance = [], []
        result = model(input_ids=inputs["input_ids"].long(), use_cache=False,
                       attention_mask=inputs["attention_mask"].long(),
                       labels=inputs["labels"].long())
        return result, torch.stack(self.balance).mean()


def train(model, mixture, inputs):
    gates = {id(gate) for gate in mixture.gates}
    parameters = list(mixture.parameters.values())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if id(p) not in gates], "weight_decay": 0.1},
         {"params": mixture.gates, "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    losses, balances, norms = [], [], []
    for step in range(4):
        optimizer.zero_grad()
        result, balance = mixture.run(model, inputs)
        losses.append(result.loss.item())
        balances.append(balance.item())
        if step == 3:
            break
        (result.loss + BALANCE * balance).backward()
        norm = torch.sqrt(sum(p.grad.double().pow(2).sum() for p in parameters)).item()
        norms.append(norm)
        for p in parameters:
            p.grad.mul_(min(1.0, 1.0 / (norm + 1e-6)))
        optimizer.step()
    after = {name: [p.double().norm().item(), p.double().sum().item()]
             for name, p in mixture.parameters.items()}
    return {"losses": losses, "balances": balances, "grad_norms_before_clip": norms,
            "params_after": after}


def main():
    torch.manual_seed(3)  # layer 2 chooses itself
    FOLDER.mkdir(parents=True, exist_ok=True)
    model = AutoModelForCausalLM.from_pretrained(GOLDEN / "models/llama", dtype=torch.float32,
                                                 attn_implementation="eager")
    model.requires_grad_(False)
    inputs = load_file(GOLDEN / "models/llama/inputs.safetensors")
    mixture = Mixture(model)
    config = {"peft_type": "MOLEX", "r": RANK, "lora_alpha": ALPHA, "own_share": OWN,
              "balance": BALANCE, "target_modules": ["q_proj", "v_proj"]}
    (FOLDER / "adapter_config.json").write_text(json.dumps(config, indent=1))
    save_file({name: p.detach().clone() for name, p in mixture.parameters.items()},
              FOLDER / "adapter_model.safetensors")
    result, balance = mixture.run(model, inputs)
    choices = mixture.choices
    print("layers that layers chose:", choices)
    (result.loss + BALANCE * balance).backward()
    save_file({"logits": result.logits.detach().contiguous()}, FOLDER / "expected.safetensors")
    save_file({"grad." + name: p.grad.clone() for name, p in mixture.parameters.items()},
              FOLDER / "grads.safetensors")
    expected = {"loss": result.loss.item(), "balance": balance.item(), "choices": choices,
                "versions": {"torch": torch.__version__}, "train": train(model, mixture, inputs)}
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1))


if __name__ == "__main__":
    main()
