"""The divergences of [loss] in plain PyTorch, from log-probabilities [tokens, vocabulary] of the
teacher (p) and the student (q): means over tokens, with the program's default parameters."""

import math

import torch
from torch.nn import functional

ALPHA = 0.1  # of the skewed ones
BETA = 0.5  # of js


def kl(p, q):
    return functional.kl_div(q, p, reduction="batchmean", log_target=True)


def mixture(share, p, q):
    """log(share e^p + (1 - share) e^q)."""
    return torch.logaddexp(p + math.log(share), q + math.log(1 - share))


def js(p, q):
    m = mixture(BETA, p, q)
    return BETA * kl(p, m) + (1 - BETA) * kl(q, m)


DIVERGENCES = {
    "forward_kl": kl,
    "reverse_kl": lambda p, q: kl(q, p),
    "js": js,
    "tvd": lambda p, q: 0.5 * (p.exp() - q.exp()).abs().sum(dim=-1).mean(),
    "skew_kl": lambda p, q: kl(p, mixture(ALPHA, p, q)),
    "skew_reverse_kl": lambda p, q: kl(q, mixture(1 - ALPHA, p, q)),
}
