"""The work that is compared: which programs take turns at what."""

import dataclasses
import pathlib
import sys

from contenders import TUNED_MALLOC, Contender

BENCH = pathlib.Path(__file__).resolve().parent
SMALL = BENCH / "configs" / "gpt2-small"
MEDIUM = BENCH / "configs" / "gpt2-medium"
THIRD = BENCH / "configs" / "smollm2-third"
PROMPT = ("The Eiffel Tower is a wrought-iron lattice tower on the Champ de Mars in Paris, France. "
          "It is named after the engineer whose company designed and built the tower")
PROMPT_TOKENS = 32


@dataclasses.dataclass
class Row:
    """One piece of work. The first contender of each group is the one that the others are held
    against; a group is what fits into memory together."""

    name: str
    title: str
    groups: list
    rounds: int = 4
    warmups: int = 2
    note: str = ""
    pairs: list = dataclasses.field(default_factory=list)  # (this one's time, over that one's)
    memory: bool = False  # show what our contenders keep for the backward pass


@dataclasses.dataclass
class Setup:
    build: pathlib.Path  # holds bench/bench_step and bench/bench_decode
    models: pathlib.Path  # SmolLM2 as a Hugging Face folder and as GGUF files
    threads: int
    bf16: bool

    def step(self, name, *options):
        return Contender(name, [self.build / "bench" / "bench_step", *options], self.threads)

    def ranks(self, name, count, *options):
        launcher = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-np", count]
        program = [self.build / "bench" / "bench_step", *options]
        return Contender(name, launcher + program, self.threads // count)

    def peer(self, name, script, *options, tuned=False):
        command = [sys.executable, BENCH / "peers" / script, "--threads", self.threads, *options]
        return Contender(name, command, self.threads,
                         {"GLIBC_TUNABLES": TUNED_MALLOC} if tuned else None)


def training(setup, length):
    options = ["--student", SMALL, "--batch", 4, "--length", length]
    ours = lambda: setup.step("fathom", *options)
    default = setup.peer("PyTorch default", "train_torch.py", *options)
    tuned = setup.peer("PyTorch tuned", "train_torch.py", *options, tuned=True)
    row = Row(f"train-4x{length}", f"GPT-2 small (124M), training step, 4 x {length} tokens, f32",
              [[ours(), default, tuned]])
    if length > 512:  # the three together need more than 24 GB
        groups = [[ours(), default], [ours(), tuned]]
        row = dataclasses.replace(row, groups=groups, rounds=3, warmups=1)
    return row


DIVERGENCES = ["reverse_kl", "js", "tvd", "skew_kl", "skew_reverse_kl"]


def divergence(setup, name):
    options = ["--student", SMALL, "--teacher", MEDIUM, "--batch", 4, "--length", 256,
               "--divergence", name]
    peer = setup.peer("PyTorch tuned", "distil_torch.py", *options, tuned=True)
    title = f"Distillation GPT-2 medium (355M) -> small by {name}, 4 x 256 tokens, f32"
    return Row(f"distil-{name}", title, [[setup.step("fathom", *options), peer]], rounds=3,
               warmups=1)


def distillation(setup, teacher, peer_teacher):
    options = ["--student", SMALL, "--teacher", MEDIUM, "--batch", 4, "--length", 256]
    peer_options = [*options, "--teacher-dtype", peer_teacher]
    suffix = "" if peer_teacher == teacher else f", {peer_teacher} teacher"
    peers = [setup.peer(f"PyTorch {kind}{suffix}", "distil_torch.py", *peer_options,
                        tuned=kind == "tuned") for kind in ("default", "tuned")]
    ours = setup.step("fathom", *options, "--teacher-dtype", teacher)
    both = f", PyTorch's in {peer_teacher}" if suffix else ""
    title = f"Distillation GPT-2 medium (355M) -> small, 4 x 256 tokens, teacher in {teacher}{both}"
    return Row(f"distil-{teacher}-{peer_teacher}", title, [[ours, *peers]],
               rounds=3 if teacher == peer_teacher == "bf16" else 4)


def trajectories(setup, method, teacher):
    """Distillation with losses on hidden states, in PyTorch as well."""
    options = ["--student", SMALL, "--teacher", MEDIUM, "--batch", 4, "--length", 256,
               "--teacher-dtype", teacher, "--method", method]
    peer = setup.peer("PyTorch tuned", "distil_torch.py", *options, tuned=True)
    title = (f"Distillation GPT-2 medium (355M) -> small with {method.upper()}, 4 x 256 tokens, "
             f"teacher in {teacher}")
    return Row(f"distil-{method}-{teacher}", title, [[setup.step("fathom", *options), peer]],
               rounds=3, warmups=1)


def alignment(setup):
    """What MTA costs on top of its base, at the size of configs/mta-smollm2.ini."""
    options = ["--student", THIRD, "--teacher", setup.models / "smollm2", "--teacher-dtype",
               "bf16" if setup.bf16 else "f32", "--divergence", "skew_kl", "--batch", 4,
               "--length", 256]
    layers = ["--mta.student_layers=5,8,10", "--mta.teacher_layers=15,24,30"]
    base = setup.step("DistiLLM", *options)
    ours = setup.step("DistiLLM with MTA", *options, "--method", "mta", *layers)
    return Row("mta-smollm2", "MTA on top of skew KL: SmolLM2-135M -> its third, 4 x 256 tokens", [[base, ours]], rounds=20, pairs=[(ours.name, base.name)])


LORA_TARGETS = "q_proj,k_proj,v_proj,up_proj,down_proj"
LORA = ["--adapter.kind=lora", f"--adapter.targets={LORA_TARGETS}"]
CONTROL = ["--adapter.kind=parallel_control"]
TUNED_MODEL = "SmolLM2-135M, training step, 4 x 256 tokens, f32"


def tuning_step(setup, name, *options):
    work = ["--student", setup.models / "smollm2", "--batch", 4, "--length", 256]
    return setup.step(name, *work, *options)


def frozen_step(setup):
    """Forward, and backward through all layers for no weights: one control of rank 1 in front."""
    return tuning_step(setup, "frozen forward and backward", *CONTROL, "--adapter.rank=1",
                       "--adapter.layers=0", "--adapter.sites=attention")


def lora(setup, dtype):
    work = ["--student", setup.models / "smollm2", "--batch", 4, "--length", 256, "--rank", 8,
            "--targets", LORA_TARGETS, "--dtype", dtype]
    peers = [setup.peer(f"PEFT {kind}", "tune_torch.py", *work, tuned=kind == "tuned")
             for kind in ("default", "tuned")]
    ours = tuning_step(setup, "fathom", *LORA, "--adapter.rank=8", f"--model.frozen_dtype={dtype}")
    weights = ", frozen weights in bf16 (PEFT's activations too)" if dtype == "bf16" else ""
    return Row(f"lora-smollm2-{dtype}",
               f"LoRA (rank 8; q, k, v, up, down) on {TUNED_MODEL}{weights}", [[ours, *peers]])


def control(setup):
    """Rank 24 of a control on both sites has as many parameters as LoRA of rank 8."""
    rank_8 = [*LORA, "--adapter.rank=8"]
    return Row(
        "control-smollm2", f"Parallel Control beside LoRA, equal trained parameters: {TUNED_MODEL}",
        [[tuning_step(setup, "Parallel Control, rank 24", *CONTROL, "--adapter.rank=24",
                      "--recompute", "none"),
          tuning_step(setup, "LoRA, rank 8", *rank_8, "--recompute", "none"),
          tuning_step(setup, "LoRA, rank 8, recompute = cheap", *rank_8)]], rounds=8, memory=True,
        note="LoRA needs the inputs of the layers that it is on. It keeps them, or with "
             "memory.recompute = cheap makes them again; a control needs neither.")


def mixture_of_control(setup):
    moc = ["--moc.enabled=true", "--moc.rank=24"]
    ours = tuning_step(setup, "MoC, K = 1", *moc)
    plain = tuning_step(setup, "Parallel Control", *CONTROL, "--adapter.rank=24")
    frozen = frozen_step(setup)
    return Row("moc-smollm2", f"Mixture of control (rank 24, both sites) on {TUNED_MODEL}",
               [[frozen, plain, ours, tuning_step(setup, "MoC, K = 2", *moc, "--moc.top_k=2")]],
               rounds=20, pairs=[(ours.name, plain.name), (ours.name, frozen.name)], memory=True)


def late_votes(setup):
    """The late layers' divergence takes two more products with the head for each of the k - 1."""
    lora_only = [*LORA, "--adapter.rank=8"]
    mode = [*lora_only, "--mode.enabled=true", "--mode.k=3"]
    plain = tuning_step(setup, "LoRA", *lora_only)
    without = tuning_step(setup, "LoRA + MoDE, k = 3, lambda = 0", *mode, "--mode.lambda=0")
    distilled = tuning_step(setup, "LoRA + MoDE, k = 3, lambda = 0.1", *mode)
    return Row("mode-smollm2", f"Late layers that vote, beside LoRA of rank 8 on {TUNED_MODEL}",
               [[plain, without, distilled]], rounds=20,
               pairs=[(without.name, plain.name), (distilled.name, plain.name)], memory=True)


def mixed_layers(setup):
    """Rank 6 with the gates has about as many parameters as the others."""
    return Row("molex-smollm2", f"MoLEx beside control, equal trained parameters: {TUNED_MODEL}",
               [[tuning_step(setup, "Parallel Control", *CONTROL, "--adapter.rank=24"),
                 tuning_step(setup, "MoC, K = 1", "--moc.enabled=true", "--moc.rank=24"),
                 tuning_step(setup, "MoLEx", "--adapter.kind=molex", "--adapter.rank=6",
                             f"--adapter.targets={LORA_TARGETS}")]], memory=True)


def decoding(setup, dtype):
    from tokenizers import Tokenizer
    folder = setup.models / "smollm2"
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(PROMPT).ids[:PROMPT_TOKENS]
    options = ["--ids", ",".join(map(str, ids)), "--new", 96]
    ours = Contender("fathom", [setup.build / "bench" / "bench_decode", "--model", folder,
                                "--dtype", dtype, *options], setup.threads)
    transformers = setup.peer("Transformers", "decode_transformers.py", "--model", folder,
                              "--dtype", dtype, *options)
    llama = setup.peer("llama.cpp", "decode_llama_cpp.py", "--model",
                       setup.models / f"smollm2-{dtype}.gguf", *options)
    return Row(f"decode-{dtype}", "SmolLM2-135M, greedy, batch 1, 32 prompt + 96 new tokens, "
               f"weights in {dtype}", [[ours, transformers, llama]], rounds=16,
               pairs=[(ours.name, llama.name)])


def sampling(setup, count):
    from tokenizers import Tokenizer
    folder = setup.models / "smollm2"
    text = " ".join([PROMPT] * 3)
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids
    lengths = [10 + 60 * i // (count - 1) for i in range(count)]
    prompts = ";".join(",".join(map(str, ids[:length])) for length in lengths)
    options = ["--model", folder, "--dtype", "f32", "--ids", prompts, "--new", 64,
               "--temperature", 1]
    ours = Contender("fathom", [setup.build / "bench" / "bench_decode", *options], setup.threads)
    return Row(f"sample-{count}", f"SmolLM2-135M, {count} prompts of {lengths[0]} to {lengths[-1]} "
               "tokens at once, 64 new tokens each, sampled, f32",
               [[ours, setup.peer("Transformers", "decode_transformers.py", *options)]],
               warmups=1)


def scaling(setup):
    whole = ["--student", SMALL, "--batch", 4, "--length", 256]
    split = ["--student", SMALL, "--length", 256, "--batch", 2, "--micro-batches", 2]
    return Row("two-ranks", "GPT-2 small, 4 x 256 tokens: two ranks of half the threads",
               [[setup.step("1 rank", *whole), setup.ranks("dp 2", 2, *split, "--dp", 2),
                 setup.ranks("tp 2", 2, *whole, "--tp", 2)]],
               note="A ratio of 1.05 keeps 0.95 of one rank's speed.")


def pipeline(setup):
    options = ["--student", SMALL, "--length", 256, "--batch", 1, "--micro-batches", 4]
    return Row("two-stages", "GPT-2 small, 4 micro-batches of 1 x 256 tokens: two stages",
               [[setup.step("1 rank", *options), setup.ranks("pp 2", 2, *options, "--pp", 2)]],
               note="With 4 micro-batches each of two stages is idle for 1 of 5 slots: a ratio of "
                    "1.25 keeps all that there is to keep.")


def all_rows(setup):
    rows = [training(setup, 256), training(setup, 1024), distillation(setup, "f32", "f32")]
    if setup.bf16:
        rows += [distillation(setup, "bf16", "f32"), distillation(setup, "bf16", "bf16")]
    rows += [divergence(setup, name) for name in DIVERGENCES]
    rows += [trajectories(setup, method, "f32") for method in ("mta", "fdd")]
    if setup.bf16:
        rows += [trajectories(setup, method, "bf16") for method in ("mta", "fdd")]
    rows += [alignment(setup)]
    rows += [lora(setup, dtype) for dtype in (["f32", "bf16"] if setup.bf16 else ["f32"])]
    rows += [control(setup), mixture_of_control(setup), mixed_layers(setup), late_votes(setup)]
    rows += [decoding(setup, "f32"), decoding(setup, "bf16")]
    rows += [sampling(setup, 16), sampling(setup, 32)]
    return rows + ([scaling(setup), pipeline(setup)] if setup.threads == 2 else [])
