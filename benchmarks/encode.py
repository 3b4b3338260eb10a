"""Sentences a second of ``Encoder.encode`` against ``SentenceTransformer.encode``.

python benchmarks/encode.py
"""

import numpy as np
from common import data_folder, matmul_limit, publish, seconds
from sentence_transformers import SentenceTransformer

import tertium
from tertium.data import benchmarks

SENTENCES = 3000


def main() -> None:
    """Time both on the same texts, and say how near they come to the machine's limit."""
    encoder = tertium.load()
    stock = SentenceTransformer(str(encoder.source), device="cpu")
    limit = matmul_limit()
    rows = []
    for name, texts in real_texts().items():
        encoder.encode(texts[:200])
        stock.encode(texts[:200])
        timings = {"tertium": seconds(lambda texts=texts: encoder.encode(texts))}
        for size in (32, 64, 128):
            label = f"sentence-transformers, batch {size}{' (default)' if size == 32 else ''}"
            timings[label] = seconds(
                lambda texts=texts, size=size: stock.encode(texts, batch_size=size)
            )
        default = timings["sentence-transformers, batch 32 (default)"]
        work = operations(encoder, texts)
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


def real_texts() -> dict[str, list[str]]:
    """Distinct sentences of three sorts, in an order that tells nothing."""
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


def operations(encoder: tertium.Encoder, texts: list[str]) -> float:
    """Floating-point operations of the real tokens alone: projections, feed-forward, attention."""
    config = encoder.backbone.config
    d, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    lengths = np.array([len(ids) for ids in encoder.tokenizer(texts)["input_ids"]])
    per_token = 2 * (4 * d * d + 2 * d * inner)
    return float(layers * (per_token * lengths + 4 * d * lengths**2).sum())


if __name__ == "__main__":
    main()
