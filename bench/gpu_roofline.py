"""What one layer's training step asks of a GPU, launch by launch, and the least time that an H200 could take for it.

    bench/gpu_roofline.py [--model bench/configs/smollm2-third] [--tokens 8192] [--length 1024] [--precision bf16]

On paper: bytes count each operand of a launch once, as if nothing stayed in the caches from one launch to the next,
operations are multiply-adds times two. A launch's time is the longer of bytes / bandwidth and operations / rate, and
at least what a launch itself costs.
"""

import argparse
import collections
import json
import pathlib
import sys

BANDWIDTH = 4.8e12  # bytes/s, HBM3e of an H200 SXM
RATES = {"f32": 67e12, "tf32": 494.7e12, "bf16": 989.4e12}  # dense, operations/s
LAUNCH = 2.5e-6  # s from one kernel to the next on a stream that never runs dry

Launch = collections.namedtuple("Launch", "phase kernel what bytes operations rate")


class Layer:
    """The launches of one LLaMA block, all weights trained, memory.recompute = cheap."""

    def __init__(self, config, tokens, length, precision):
        self.h = config["hidden_size"]
        self.f = config["intermediate_size"]
        heads = config["num_attention_heads"]
        self.d = config.get("head_dim") or self.h // heads
        self.q = heads * self.d
        self.kv = config.get("num_key_value_heads", heads) * self.d
        self.heads = heads
        self.t, self.length, self.precision = tokens, length, precision
        self.list = []

    def rows(self, phase, kernel, what, floats, operations=0):
        self.list.append(Launch(phase, kernel, what, 4 * floats, operations, RATES["f32"]))

    def product(self, phase, what, m, n, k, beta=0):
        """C [m, n] = A [m, k] B [k, n] in f32 memory. For bf16 the factors are rounded first."""
        if self.precision == "bf16":
            for name, size in (("A", m * k), ("B", k * n)):
                self.list.append(Launch(phase, "round_to_bf16", f"{name} of {what}", 6 * size, 0, RATES["f32"]))
        factor = 2 if self.precision == "bf16" else 4
        size = factor * (m * k + k * n) + 4 * m * n * (1 + beta)
        self.list.append(Launch(phase, "gemm", f"{what} {m} x {n} x {k}", size, 2 * m * n * k, RATES[self.precision]))

    def attention(self, phase, kernel, floats, products):
        # Causal: each query meets half of its sequence. FMA units, not tensor cores (src/gpu/attention_*.cu).
        pairs = self.t * (self.length + 1) / 2
        self.list.append(Launch(phase, kernel, "", 4 * floats, products * 2 * pairs * self.q, RATES["f32"]))

    def forward(self, phase="forward"):
        t, h, f, q, kv = self.t, self.h, self.f, self.q, self.kv
        self.rows(phase, "norm_forward", "before attention", 2 * t * h, 4 * t * h)
        self.product(phase, "qkv", t, q + 2 * kv, h)
        self.rows(phase, "rotate", "queries and keys", 2 * t * (q + kv), 3 * t * (q + kv))
        self.attention(phase, "attention_forward", t * (2 * q + 2 * kv), 2)
        self.product(phase, "attention out", t, h, q)
        self.rows(phase, "residual_forward", "", 3 * t * h, t * h)
        self.rows(phase, "norm_forward", "before feed-forward", 2 * t * h, 4 * t * h)
        self.product(phase, "gate and up", t, 2 * f, h)
        self.rows(phase, "gated_forward", "", 3 * t * f, 5 * t * f)
        self.product(phase, "down", t, h, f)
        self.rows(phase, "residual_forward", "", 3 * t * h, t * h)
        return self

    def linear_backward(self, phase, what, inputs, outputs):
        self.product(phase, f"d{what} / dW", outputs, inputs, self.t)
        self.product(phase, f"d{what} / dx", self.t, inputs, outputs)

    def backward(self, phase="backward"):
        t, h, f, q, kv = self.t, self.h, self.f, self.q, self.kv
        self.rows(phase, "gated_forward", "made again", 3 * t * f, 5 * t * f)
        self.linear_backward(phase, "down", f, h)
        self.rows(phase, "gated_backward", "", 5 * t * f, 10 * t * f)
        self.rows(phase, "norm_forward", "made again", 2 * t * h, 4 * t * h)
        self.linear_backward(phase, "gate and up", h, 2 * f)
        self.rows(phase, "norm_backward", "with the residual's gradient", 4 * t * h, 8 * t * h)
        self.rows(phase, "norm_weight", "", 2 * t * h, 3 * t * h)
        self.linear_backward(phase, "attention out", q, h)
        self.attention(phase, "attention_backward", t * (4 * q + 4 * kv), 7)
        self.rows(phase, "rotate", "their gradients", 2 * t * (q + kv), 3 * t * (q + kv))
        self.rows(phase, "norm_forward", "made again", 2 * t * h, 4 * t * h)
        self.linear_backward(phase, "qkv", h, q + 2 * kv)
        self.rows(phase, "norm_backward", "with the residual's gradient", 4 * t * h, 8 * t * h)
        self.rows(phase, "norm_weight", "", 2 * t * h, 3 * t * h)
        return self

    def update(self, phase="update"):
        weights = {"qkv": self.h * (self.q + 2 * self.kv), "attention out": self.q * self.h,
                   "gate and up": 2 * self.f * self.h, "down": self.f * self.h, "norms": 2 * self.h}
        for name, n in weights.items():
            self.rows(phase, "sum_of_squares", name, n, 2 * n)
        for name, n in weights.items():
            self.rows(phase, "adamw", name, 7 * n, 12 * n)
        return self


def least_seconds(launch):
    return max(launch.bytes / BANDWIDTH, launch.operations / launch.rate, LAUNCH)


def limit(launch):
    times = {"bytes": launch.bytes / BANDWIDTH, "operations": launch.operations / launch.rate, "launch": LAUNCH}
    return max(times, key=times.get)


def print_table(launches):
    print("| phase | kernel | what | MB | GFLOP | least us | bound by |\n|---|---|---|---|---|---|---|")
    for launch in launches:
        print(f"| {launch.phase} | `{launch.kernel}` | {launch.what} | {launch.bytes / 1e6:.1f} "
              f"| {launch.operations / 1e9:.2f} | {1e6 * least_seconds(launch):.1f} | {limit(launch)} |")


def print_sums(launches, layer):
    total = sum(map(least_seconds, launches))
    operations = sum(launch.operations for launch in launches)
    products = sum(launch.operations for launch in launches if launch.kernel == "gemm")
    moved = sum(launch.bytes for launch in launches)
    print(f"\n{len(launches)} launches, {moved / 1e9:.2f} GB, {operations / 1e9:.0f} GFLOP "
          f"({100 * products / operations:.0f} % in products): at least {1e3 * total:.2f} ms a layer of "
          f"{layer.t} tokens, {operations / total / 1e12:.0f} TFLOP/s or "
          f"{100 * operations / total / RATES[layer.precision]:.0f} % of the {layer.precision} rate.")
    by_kernel = collections.Counter()
    for launch in launches:
        by_kernel[launch.kernel] += least_seconds(launch)
    print("\n| kernel | share of the least time |\n|---|---|")
    for kernel, seconds in by_kernel.most_common():
        print(f"| `{kernel}` | {100 * seconds / total:.1f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bench/configs/smollm2-third")
    parser.add_argument("--tokens", type=int, default=8192, help="of a micro-batch")
    parser.add_argument("--length", type=int, default=1024, help="tokens of a sequence")
    parser.add_argument("--precision", choices=RATES, default="bf16")
    parser.add_argument("--sums", action="store_true", help="leave the list of launches out")
    options = parser.parse_args()
    config = json.loads((pathlib.Path(options.model) / "config.json").read_text())
    if "intermediate_size" not in config:
        sys.exit(f"{options.model}: only gated (LLaMA-like) blocks are on paper")
    layer = Layer(config, options.tokens, options.length, options.precision)
    launches = layer.forward().backward().update().list
    if not options.sums:
        print_table(launches)
    print_sums(launches, layer)


if __name__ == "__main__":
    main()
