"""What a table of times must say about the machine and the software that it was measured with."""

import importlib.metadata
import os
import subprocess


def _output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _lscpu():
    lines = (line.split(":", 1) for line in _output("lscpu").splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in lines}


def _first_line(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except OSError:
        return "unknown"


def cores():
    return len(os.sched_getaffinity(0))


def has_bf16_dot_products():
    return "avx512_bf16" in _lscpu().get("Flags", "")


def load():
    return os.getloadavg()[0]


def commit(repository):
    """What is measured: src and bench as committed, or with changes."""
    head = _output("git", "-C", repository, "rev-parse", "--short", "HEAD")
    sources = ("src", "bench/src", "bench/peers", "bench/configs")
    changed = _output("git", "-C", repository, "status", "--porcelain", "--", *sources)
    return f"{head}, with changes" if changed else head


def describe():
    cpu = _lscpu()
    vectors = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "avx512_vnni")
               if flag in cpu.get("Flags", "").split()]
    caches = {name: cpu[name] for name in ("L1d cache", "L2 cache", "L3 cache") if name in cpu}
    mpi = _output("mpirun", "--version").splitlines()
    packages = {}
    for name in ("torch", "transformers", "peft", "llama-cpp-python", "numpy"):
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            packages[name] = "not installed"
    return {
        "cpu": cpu.get("Model name", "unknown"),
        "cores": cores(),
        "threads per core": cpu.get("Thread(s) per core", "unknown"),
        "hypervisor": cpu.get("Hypervisor vendor", "none"),
        "vector units": " ".join(vectors),
        "caches": ", ".join(f"{name[:-len(' cache')]} {size}" for name, size in caches.items()),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB",
        "kernel": _output("uname", "-sr"),
        "C library": " ".join(_output("getconf", "GNU_LIBC_VERSION").split()),
        "transparent huge pages": _first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "packages": ", ".join(f"{name} {version}" for name, version in packages.items()),
        "MPI": mpi[0] if mpi else "none",
    }
