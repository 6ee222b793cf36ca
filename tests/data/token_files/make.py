"""Writes h5py.h5: a token file made without Fathom (h5py and xxhash), its ids compressed."""
import h5py
import numpy as np
import xxhash

ids = np.array([5, 6, 7, 1, 8, 9, 1, 2, 3, 4, 0, 1], dtype="<i4")
offsets = np.array([0, 4, 7, 12], dtype="<i8")
prompt_lengths = np.array([2, 0, 1], dtype="<i4")
sources = np.array([0, 1, -1], dtype="<i8")
attributes = [
    ("format", "fathom.tokens"), ("format_version", 1), ("vocab_size", 10), ("eos_id", 1),
    ("block", 0), ("template", "alpaca"), ("tokenizer_fingerprint", "00112233445566aa"),
    ("template_fingerprint", "00112233445566bb"), ("source_fingerprint", "00112233445566cc"),
]
digest = "".join(f"{value}\n" for _, value in attributes)
for array in (ids, offsets, prompt_lengths, sources):
    digest += xxhash.xxh64(array.tobytes()).hexdigest() + "\n"

with h5py.File("h5py.h5", "w") as file:
    for name, value in attributes:
        file.attrs[name] = value
    file.attrs["fingerprint"] = xxhash.xxh64(digest.encode()).hexdigest()
    file.create_dataset("ids", data=ids, chunks=(4,), compression="gzip")
    file["offsets"], file["prompt_lengths"], file["sources"] = offsets, prompt_lengths, sources
