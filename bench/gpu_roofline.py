"""What one layer's training step asks of a GPU, launch by launch, and the least time that an H200 could take for it.

    bench/gpu_roofline.py [--model bench/configs/smollm2-third] [--tokens 8192] [--length 1024] [--precision bf16]

On paper: bytes count each operand of a launch once, as if nothing stayed in the caches from one launch to the next,
operations are multiply-adds times two. A launch's time is the longer of bytes / bandwidth and operations / rate, and
at least what a launch itself costs. tests/gpu/launch_list_test.py holds the list against what a layer launches.
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
        self.products = []  # (m, n, k) of each

    def rows(self, phase, kernel, what, floats, operations=0):
        self.list.append(Launch(phase, kernel, what, 4 * floats, operations, RATES["f32"]))

    def narrow(self, phase, what, floats):
        """A factor of products in bf16."""
        if self.precision == "bf16":
            self.list.append(Launch(phase, "narrow", what, 6 * floats, 0, RATES["f32"]))

    def product(self, phase, what, m, n, k):
        """C [m, n] = A [m, k] B [k, n], C in f32 memory."""
        factor = 2 if self.precision == "bf16" else 4
        size = factor * (m * k + k * n) + 4 * m * n
        self.list.append(Launch(phase, "gemm", f"{what} {m} x {n} x {k}", size, 2 * m * n * k, RATES[self.precision]))
        self.products.append((m, n, k))

    def linear(self, phase, what, inputs, outputs):
        self.narrow(phase, f"x of {what}", self.t * inputs)
        self.narrow(phase, f"W of {what}", inputs * outputs)
        self.product(phase, what, self.t, outputs, inputs)

    def linear_backward(self, phase, what, inputs, outputs, remade=True):
        """`remade`: the input was not kept, and is rounded again when it has been made again."""
        self.narrow(phase, f"dy of {what}", self.t * outputs)
        if remade:
            self.narrow(phase, f"x of {what}", self.t * inputs)
        self.product(phase, f"d{what} / dW", outputs, inputs, self.t)
        self.narrow(phase, f"W of {what}", inputs * outputs)
        self.product(phase, f"d{what} / dx", self.t, inputs, outputs)

    def attention(self, phase, kernel, what, floats, products):
        # Causal: each query meets half of its sequence. FMA units, not tensor cores (src/gpu/attention_*.cu).
        pairs = self.t * (self.length + 1) / 2
        self.list.append(Launch(phase, kernel, what, 4 * floats, products * 2 * pairs * self.q, RATES["f32"]))

    def forward(self, phase="forward"):
        t, h, f, q, kv = self.t, self.h, self.f, self.q, self.kv
        self.rows(phase, "norm_forward", "before attention", 2 * t * h, 4 * t * h)
        self.linear(phase, "qkv", h, q + 2 * kv)
        self.rows(phase, "rotate", "queries and keys", 2 * t * (q + kv), 3 * t * (q + kv))
        self.attention(phase, "attention_forward", "", t * (2 * q + 2 * kv), 2)
        self.linear(phase, "attention out", q, h)
        self.rows(phase, "residual_forward", "", 3 * t * h, t * h)
        self.rows(phase, "norm_forward", "before feed-forward", 2 * t * h, 4 * t * h)
        self.linear(phase, "gate and up", h, 2 * f)
        self.rows(phase, "gated_forward_as", "", 3 * t * f, 5 * t * f)
        self.linear(phase, "down", f, h)
        self.rows(phase, "residual_forward", "", 3 * t * h, t * h)
        return self

    def norm_backward(self, phase):
        t, h, groups = self.t, self.h, 32  # of rows, whose sums the weight's gradient is made of
        self.rows(phase, "norm_backward", "with the residual's gradient", 4 * t * h, 8 * t * h)
        self.rows(phase, "accumulate_weight_gradient", "of groups of rows", (2 * t + groups) * h, 3 * t * h)
        self.rows(phase, "accumulate_column_sums", "of groups of groups", 2 * groups * h, 0)
        self.rows(phase, "accumulate_column_sums", "of the norm's weight", (groups + 1) * h, groups * h)

    def backward(self, phase="backward"):
        t, h, f, q, kv = self.t, self.h, self.f, self.q, self.kv
        self.rows(phase, "gated_forward_as", "made again", 3 * t * f, 5 * t * f)
        self.linear_backward(phase, "down", f, h)
        self.rows(phase, "gated_backward_as", "", 5 * t * f, 10 * t * f)
        self.rows(phase, "norm_forward", "made again", 2 * t * h, 4 * t * h)
        self.linear_backward(phase, "gate and up", h, 2 * f)
        self.norm_backward(phase)
        self.linear_backward(phase, "attention out", q, h, remade=False)
        self.attention(phase, "attention_backward", "queries", t * (4 * q + 2 * kv), 3)
        self.attention(phase, "attention_backward", "keys and values", t * (2 * q + 4 * kv), 4)
        self.rows(phase, "rotate", "their gradients", 2 * t * (q + kv), 3 * t * (q + kv))
        self.rows(phase, "norm_forward", "made again", 2 * t * h, 4 * t * h)
        self.linear_backward(phase, "qkv", h, q + 2 * kv)
        self.norm_backward(phase)
        return self

    def update(self, phase="update"):
        h, f = self.h, self.f
        weights = {"q": h * self.q, "k": h * self.kv, "v": h * self.kv, "attention out": self.q * h, "gate": h * f,
                   "up": h * f, "down": f * h, "attention norm": h, "feed-forward norm": h}
        for name, n in weights.items():
            self.rows(phase, "partial_sums_of_squares", name, n, 2 * n)
        for name, n in weights.items():
            self.rows(phase, "adamw", name, 7 * n, 12 * n)
        return self

    def step(self):
        return self.forward().backward().update()


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
    launches = layer.step().list
    if not options.sums:
        print_table(launches)
    print_sums(launches, layer)


if __name__ == "__main__":
    main()
