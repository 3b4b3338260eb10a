"""Sentences a second of ``Encoder.encode`` against ``SentenceTransformer.encode``, and memory.

python benchmarks/encode.py
"""

import json
import resource
import subprocess
import sys

import numpy as np
from common import data_folder, matmul_limit, publish, seconds
from sentence_transformers import SentenceTransformer

import tertium
from tertium.data import benchmarks

SENTENCES = 3000


def main() -> None:
    """Measure speed, then memory in processes of their own."""
    encoder = tertium.load()
    stock = SentenceTransformer(str(encoder.source), device="cpu")
    limit = matmul_limit()
    rows = []
    for name, texts in _texts().items():
        encoder.encode(texts[:200])
        stock.encode(texts[:200])
        timings = {"tertium": seconds(lambda texts=texts: encoder.encode(texts))}
        for size in (32, 64, 128):
            label = f"sentence-transformers, batch {size}{' (default)' if size == 32 else ''}"
            timings[label] = seconds(
                lambda texts=texts, size=size: stock.encode(texts, batch_size=size)
            )
        default = timings["sentence-transformers, batch 32 (default)"]
        work = _operations(encoder, texts)
        for label, spent in timings.items():
            rows.append(
                [
                    name,
                    label,
                    f"{len(texts) / spent:.0f}",
                    f"{default / spent:.2f}",
                    f"{100 * work / spent / limit:.0f} %",
                ]
            )
    header = ["texts", "engine", "sentences/s", "ratio to default", "of matrix limit"]
    title = (
        f"Encoding, {SENTENCES:,} distinct sentences each; matrix limit {limit / 1e9:.0f} GFLOP/s"
    )
    publish("encode", title, header, rows)

    memory = [
        [f"{count:,}", kind, f"{peak:.0f} MB"]
        for count, kind in [
            (10_000, "default"),
            (100_000, "default"),
            (10_000, "stub"),
            (1_000_000, "stub"),
        ]
        for peak in [_peak(count, kind)]
    ]
    publish("memory", "Peak memory of encode_stream", ["texts", "encoder", "peak"], memory)


def _texts() -> dict[str, list[str]]:
    folder = data_folder()
    found = {}
    for label, name, split in (("STS-B", "STS-B", "train"), ("SICK", "SICK-R", "train")):
        rows = benchmarks.load(name, split=split, folder=folder, text="raw").rows
        found[label] = [text for row in rows for text in (row.sentence1, row.sentence2)]
    wiki = benchmarks.load("wiki", split="train", folder=folder).rows
    found["wiki"] = [row.sentence for row in wiki]
    generator = np.random.default_rng(0)
    return {
        label: list(generator.permutation(sorted(set(texts)))[:SENTENCES].tolist())
        for label, texts in found.items()
    }


def _operations(encoder: tertium.Encoder, texts: list[str]) -> float:
    """Floating-point operations of the real tokens alone: projections, feed-forward, attention."""
    config = encoder.backbone.config
    d, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    lengths = np.array([len(ids) for ids in encoder.tokenizer(texts)["input_ids"]])
    per_token = 2 * (4 * d * d + 2 * d * inner)
    return float(layers * (per_token * lengths + 4 * d * lengths**2).sum())


def _peak(count: int, kind: str) -> float:
    command = [sys.executable, __file__, "--memory", str(count), kind]
    return float(json.loads(subprocess.check_output(command)))


def _memory(count: int, kind: str) -> None:
    """Stream ``count`` texts through an encoder and print the peak resident size in MB."""
    encoder = tertium.load()
    if kind == "stub":  # everything but the network: tokens, batches, windows
        width = encoder.dimension
        encoder._forward = (
            lambda features: {  # type: ignore[method-assign]
                "sentence_embedding": features["input_ids"][:, :1].float().expand(-1, width)
            }
        )
    texts = (f"sentence number {at} about the weather" for at in range(count))
    for _ in encoder.encode_stream(texts, progress=False):
        pass
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    if "--memory" in sys.argv:
        _memory(int(sys.argv[2]), sys.argv[3])
    else:
        main()
