"""Peak memory of ``encode_stream``: flat, however many texts there are.

python benchmarks/memory.py
"""

import subprocess
import sys

import numpy as np
from common import peak_memory, publish

import tertium

RUNS = [(10_000, "default"), (100_000, "default"), (10_000, "stub"), (1_000_000, "stub")]


def main() -> None:
    """Each run in a process of its own, or an earlier peak would hide it."""
    rows = []
    for count, kind in RUNS:
        command = [sys.executable, __file__, "--run", str(count), kind]
        peak = float(subprocess.check_output(command).split()[-1])
        rows.append([f"{count:,}", kind, f"{peak:.0f} MB"])
    publish("memory", "Peak memory of encode_stream", ["texts", "encoder", "peak"], rows)


def stream(count: int, kind: str) -> None:
    """Stream ``count`` texts through the encoder and print the peak in MB."""
    encoder = tertium.load()
    if kind == "stub":  # everything but the network: tokens, batches, windows
        width = encoder.dimension
        encoder._run = (
            lambda ids, mask, prompt: np.tile(  # type: ignore[method-assign]
                ids[:, :1].astype(np.float32), width
            )
        )
    texts = (f"sentence number {at} about the weather" for at in range(count))
    for _ in encoder.encode_stream(texts, progress=False):
        pass
    print(peak_memory())


if __name__ == "__main__":
    if "--run" in sys.argv:
        stream(int(sys.argv[2]), sys.argv[3])
    else:
        main()
