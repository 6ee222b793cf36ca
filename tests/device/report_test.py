"""report.py on planted results: those of a good run pass, and each thing that can go wrong on a device is told."""

import array
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

REPORT = pathlib.Path(__file__).parent / "report.py"
STEPS = ["kernels_test", "probe_f32", "train_once", "train_stopped", "train_resumed", "step_bf16"]


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        begin, data = len(data), data + array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work, self.output = pathlib.Path(folder.name) / "work", pathlib.Path(folder.name) / "output"
        self.output.mkdir()
        self.work.mkdir()
        self.codes = {name: 137 if name == "train_stopped" else 0 for name in STEPS}
        for kind in ("cpu", "f32", "tf32", "bf16"):
            self.plant_probe(kind)
        for run in ("once", "again", "resumed"):
            self.plant_run(run)
        (self.work / "step_bf16.log").write_text(
            json.dumps({"tokens_per_s": 1e5, "gflops": 4e5, "peak_gflops": 8e5}) + "\n")

    def plant_probe(self, kind, logits=(1.0, 2.0), gradient=(3.0, 4.0), losses=(6.2, 6.0), norm=1.5):
        folder = self.work / f"probe_{kind}"
        write_safetensors(folder / "expected.safetensors", {"logits": logits})
        write_safetensors(folder / "grads.safetensors", {"grad.w": gradient, "grad.norm": (1.0,)})
        lines = [f"step {i}  loss {loss}  grad_norm {norm}\n" for i, loss in enumerate(losses)]
        (self.work / f"probe_{kind}.log").write_text("a line of another kind\n" + "".join(lines))

    def plant_run(self, name, last_loss=5.0, steps=20):
        lines = [{"kind": "step", "step": i, "loss": 6.0 if i < steps else last_loss} for i in range(1, steps + 1)]
        (self.work / name).mkdir(exist_ok=True)
        (self.work / name / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def report(self):
        lines = [f"{name} {code} 3\n" for name, code in self.codes.items()]
        (self.output / "steps.txt").write_text("".join(lines))
        done = subprocess.run([sys.executable, REPORT, self.work, self.output], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        report = json.loads((self.output / "report.json").read_text())
        self.assertEqual(done.returncode, 1 if report["failed"] else 0)
        return report

    def assert_fails(self, *parts):
        failed = self.report()["failed"]
        self.assertEqual(len(failed), 1, failed)
        for part in parts:
            self.assertIn(part, failed[0])

    def test_a_good_run_passes(self):
        report = self.report()
        self.assertEqual(report["failed"], [])
        self.assertEqual(report["parity"]["bf16"], {"tensors": 3, "worst": "logits", "distance": 0.0, "steps": 0})
        self.assertEqual(report["same_losses"], {"again": True, "resumed": True})
        self.assertEqual(report["loss"], [6.0, 5.0])
        self.assertEqual(report["speed"]["step_bf16"]["share_of_measured_peak"], 0.5)

    def test_a_step_that_fails_is_told(self):
        self.codes["kernels_test"] = 1
        self.assert_fails("kernels_test: exit code 1, not 0")

    def test_a_step_that_time_did_not_suffice_for_is_told(self):
        self.codes["step_bf16"] = "skipped"
        self.assert_fails("step_bf16: exit code skipped")

    def test_a_run_that_was_to_be_killed_must_have_been(self):
        self.codes["train_stopped"] = 0
        self.assert_fails("train_stopped: exit code 0, not 137")

    def test_a_gradient_that_differs_is_told(self):
        self.plant_probe("f32", gradient=(3.0, 4.01))
        self.assert_fails("probe_f32: grad.w differs by 2.00e-03")

    def test_more_may_differ_in_bf16(self):
        self.plant_probe("bf16", gradient=(3.0, 4.01))
        self.assertEqual(self.report()["failed"], [])

    def test_nan_differs(self):
        self.plant_probe("tf32", gradient=(3.0, float("nan")))
        self.assert_fails("probe_tf32: grad.w differs by inf")

    def test_tensors_that_are_short_or_missing_differ(self):
        self.plant_probe("tf32", logits=(1.0,))
        self.assert_fails("probe_tf32: logits differs by inf")

    def test_results_that_are_missing_are_told(self):
        (self.work / "probe_f32" / "grads.safetensors").unlink()
        self.assert_fails("probe_f32: grads.safetensors is missing")

    def test_a_loss_that_departs_is_told(self):
        self.plant_probe("f32", losses=(6.2, 6.01))
        self.assert_fails("probe_f32: the loss of step 1 is 6.01, and 6.0 on the CPU")

    def test_steps_that_are_missing_are_told(self):
        self.plant_probe("bf16", losses=(6.2,))
        self.assert_fails("probe_bf16: 1 steps, and 2 on the CPU")

    def test_losses_that_are_not_the_same_are_told(self):
        self.plant_run("resumed", last_loss=5.000001)
        self.assert_fails("run resumed: its losses are not bit for bit")

    def test_a_run_that_ended_early_is_told(self):
        for name in ("once", "again", "resumed"):
            self.plant_run(name, steps=19)
        self.assertEqual(len(self.report()["failed"]), 2)

    def test_no_steps_at_all_are_told(self):
        self.codes = {}
        self.assert_fails("no step was taken")


if __name__ == "__main__":
    unittest.main()
