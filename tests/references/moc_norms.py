#!/usr/bin/env python3
"""Makes tests/data/diagnose/products.safetensors: matrices A [r, d] and B [d, r] with the singular
values of B A as numpy's SVD of the whole [d, d] product finds them. Needs numpy and safetensors.

    python3 tests/references/moc_norms.py tests/data/diagnose/products.safetensors
"""
import sys

import numpy as np
from safetensors.numpy import save_file

rng = np.random.default_rng(7)
tensors = {}


def add(name, a, b):
    a, b = a.astype(np.float32), b.astype(np.float32)
    product = b.astype(np.float64) @ a.astype(np.float64)
    tensors[name + ".A"], tensors[name + ".B"] = a, b
    tensors[name + ".values"] = np.linalg.svd(product, compute_uv=False)[: a.shape[0]].astype(np.float32)


for name, d, r in (("small", 7, 3), ("wide", 96, 16), ("one", 40, 1)):
    add(name, rng.uniform(-1, 1, (r, d)) / np.sqrt(d), rng.normal(0, 0.02, (d, r)))
# Rank 2 in rank 8; norms far apart; all singular values equal.
a, b = rng.normal(size=(8, 40)), rng.normal(size=(40, 8))
a[2:] = rng.normal(size=(6, 2)) @ a[:2]
add("deficient", a, b)
add("scaled", rng.normal(size=(8, 40)) * 10.0 ** -np.arange(8)[:, None], rng.normal(size=(40, 8)))
q, _ = np.linalg.qr(rng.normal(size=(40, 40)))
add("equal", q[:8], q[:, :8])
save_file(tensors, sys.argv[1])
