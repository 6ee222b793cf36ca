"""The launches that bench/gpu_roofline.py puts on paper are those that a layer makes: two runs of one step each on
the stand-in, of models with two and three layers, differ by one layer's launches.

    tests/gpu/launch_list_test.py FATHOM_PROGRAM
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "bench"))
import gpu_roofline  # noqa: E402  (found by the line above)

PROGRAM = None
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 64,
          "intermediate_size": 160, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
          "vocab_size": 1024, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
          "bos_token_id": 0, "eos_token_id": 0}

# Kernels that are no lambdas have no name here; what they take tells them apart.
OF_TYPE = {"Forward": "attention_forward", "Backward": "attention_backward", "GemvProduct": "gemv"}


def function_of(kernel):
    """The function that a kernel was written in: of a lambda, that which holds it."""
    end = kernel.find("::<lambda")
    if end < 0:
        return OF_TYPE[re.search(r"Parameters = \{[^;]*?(\w+)(?:<[^;]*>)?(?:, [^;]*)?\};", kernel).group(1)]
    depth = 0
    for at in range(end - 1, -1, -1):  # back over the parameters
        depth += (kernel[at] == ")") - (kernel[at] == "(")
        if depth == 0 and kernel[at] == "(":
            return re.search(r"(\w+)(?:<.*>)?$", kernel[:at]).group(1)
    raise ValueError(kernel)


def read_recording(path):
    """How often each kernel was launched, and each product made, by its shape."""
    kernels, products = collections.Counter(), collections.Counter()
    for line in path.read_text().splitlines():
        if line.startswith("kernel "):
            kernels[function_of(line.split(" ", 4)[4])] += 1
        else:
            _, m, n, k, factors = line.split()
            if not m == n == k:  # those measure the machine's peak, as often as that takes
                products[int(m), int(n), int(k), factors] += 1
    del kernels["varied"]  # what they multiply
    return kernels, products


class LaunchList(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "text.jsonl").write_text(
            json.dumps({"instruction": "Say what a layer does.", "response": 4 * "It adds to the states it reads. "}))
        self.run_fathom("tokenize", "text.jsonl", "train.h5", "--template=plain",
                        f"--tokenizer={SOURCE}/data_tools/samples/shakespeare")

    def run_fathom(self, *arguments, **environment):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, env=os.environ | environment,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def record(self, layers, precision):
        config, recording = self.folder / "config.json", self.folder / f"{layers}-{precision}.txt"
        config.write_text(json.dumps(CONFIG | {"num_hidden_layers": layers}))
        self.run_fathom("train", f"--run.dir={layers}-{precision}", "--run.device=sim",
                        f"--run.precision={precision}", "--run.steps=1", "--model.init=random",
                        "--model.config=config.json", "--data.train=train.h5", "--batch.micro_batch=1",
                        "--batch.micro_batches=1", "--log.tensorboard=false", "--log.progress=off",
                        FATHOM_SIM_RECORD=str(recording))
        return read_recording(recording)

    def check(self, precision):
        of_two, of_three = self.record(2, precision), self.record(3, precision)
        kernels, products = (three - two for two, three in zip(of_two, of_three))
        tokens = next(m for m, n, k, _ in products if (n, k) == (CONFIG["hidden_size"], CONFIG["intermediate_size"]))
        layer = gpu_roofline.Layer(CONFIG, tokens, tokens, precision).step()
        on_paper = collections.Counter(launch.kernel for launch in layer.list)
        self.assertEqual(on_paper.pop("gemm"), products.total())
        self.assertEqual(on_paper, kernels)
        self.assertEqual(collections.Counter((*shape, precision) for shape in layer.products), products)

    def test_in_f32(self):
        self.check("f32")

    def test_in_bf16(self):
        self.check("bf16")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
