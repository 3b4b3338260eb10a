"""Sentences a second of every engine against ``SentenceTransformer.encode``.

tertium tune                          # what auto is
python benchmarks/engines.py
python benchmarks/engines.py --engines torch,onnx-int8 --sentences 200 --rounds 1 --texts 16,STS-B

Each engine has processes of its own, for torch and ONNX Runtime disturb each other in one, and the
engines take turns in every round, so that ratios hold even where the machine does not keep its
pace. Exports must exist or are made first; `tertium export MODEL --engine E` shows what they lose.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from common import matmul_limit, peak_memory, publish, seconds
from encode import operations, real_texts

import tertium

LENGTHS = ("8", "16", "32", "64", "128")
REAL = ("STS-B", "SICK", "wiki")
ENGINES = ("torch", "onnx", "onnx-int8", "openvino", "openvino-int8", "static", "auto")
BATCHES = (16, 32, 64, 128)
DEFAULT, BEST = "sentence-transformers, default", "sentence-transformers, best batch"
WORDS = ("the", "cat", "dog", "house", "river", "king", "water", "music", "paper", "stone", "green")
Results = dict[str, dict[str, float]]


def main() -> None:
    """Run rounds of processes, keep each one's best figures, publish."""
    options = _options()
    runners = ["sentence-transformers", *options.engines.split(",")]
    best: dict[str, Results] = {}
    for _ in range(options.rounds):
        for runner in runners:
            for label, found in _process(runner, options).items():
                _keep(best.setdefault(label, {}), found)
    limit = matmul_limit()
    _publish_speed(best, options, limit)
    _publish_latency(best)


def measure(runner: str, options: argparse.Namespace) -> dict[str, Results]:
    """Figures of one runner by label: sentences a second by kind of text, latency, memory."""
    workloads = _workloads(options)
    if runner != "sentence-transformers":
        model = tertium.load(options.model, engine=runner)
        return {f"tertium, {runner}": _figures(model.encode, workloads)}
    from sentence_transformers import SentenceTransformer

    stock = SentenceTransformer(str(tertium.load(options.model).source), device="cpu")
    by_size = {
        size: _figures(lambda texts, size=size: stock.encode(texts, batch_size=size), workloads)
        for size in BATCHES
    }
    fastest: Results = {}
    for found in by_size.values():
        _keep(fastest, found)
    return {DEFAULT: by_size[32], BEST: fastest}


def _figures(encode: Callable[[list[str]], object], workloads: dict[str, list[str]]) -> Results:
    figures: dict[str, float] = {}
    for name, texts in workloads.items():
        encode(texts[:64])
        figures[name] = len(texts) / seconds(lambda texts=texts: encode(texts), repeats=1)
    one = next(iter(workloads.values()))[:40]
    spent = []
    for text in one:
        begin = time.perf_counter()
        encode([text])
        spent.append(time.perf_counter() - begin)
    return {"rate": figures, "rest": {"latency": statistics.median(spent), "peak": peak_memory()}}


def _keep(best: Results, found: Results) -> None:
    """The better of both, figure by figure."""
    for group, values in found.items():
        choose = max if group == "rate" else min
        kept = best.setdefault(group, {})
        for name, value in values.items():
            kept[name] = choose(kept.get(name, value), value)


def _process(runner: str, options: argparse.Namespace) -> dict[str, Results]:
    given = [f"--{name}={value}" for name, value in vars(options).items() if name != "run"]
    command = [sys.executable, __file__, f"--run={runner}", *given]
    return json.loads(subprocess.check_output(command).splitlines()[-1])


def _workloads(options: argparse.Namespace) -> dict[str, list[str]]:
    wanted = options.texts.split(",")
    found = {
        f"{length} tokens": _sized(int(length), options.sentences)
        for length in LENGTHS
        if length in wanted
    }
    if set(REAL) & set(wanted):
        real = real_texts()
        found |= {name: real[name][: options.sentences] for name in REAL if name in wanted}
    return found


def _sized(tokens: int, count: int) -> list[str]:
    """Distinct texts of so many tokens, special ones included: all words are single tokens."""
    draw = np.random.default_rng(tokens)
    rows = {" ".join(draw.choice(WORDS, tokens - 2)) for _ in range(2 * count)}
    return sorted(rows)[:count]


def _publish_speed(best: dict[str, Results], options: argparse.Namespace, limit: float) -> None:
    encoder = tertium.load(options.model)
    rows = []
    for name, texts in _workloads(options).items():
        work = operations(encoder, texts) / len(texts)
        for label, found in best.items():
            rate = found["rate"][name]
            against = [rate / best[base]["rate"][name] for base in (DEFAULT, BEST)]
            share = "" if label.endswith("static") else f"{100 * rate * work / limit:.0f} %"
            rows.append([name, label, f"{rate:.0f}", *(f"{x:.2f}" for x in against), share])
    header = ["texts", "engine", "sentences/s", "x default", "x best batch", "of float32 limit"]
    title = (
        f"Engines, up to {options.sentences:,} distinct sentences each, best of {options.rounds} "
        f"rounds; float32 matrix limit {limit / 1e9:.0f} GFLOP/s"
    )
    publish("engines", title, header, rows)


def _publish_latency(best: dict[str, Results]) -> None:
    base = best[DEFAULT]["rest"]["latency"]
    rows = [
        [
            label,
            f"{1000 * found['rest']['latency']:.1f} ms",
            f"{base / found['rest']['latency']:.2f}",
            f"{found['rest']['peak']:.0f} MB",
        ]
        for label, found in best.items()
    ]
    header = ["engine", "one sentence", "x default", "peak memory"]
    publish("engines_latency", "One sentence at a time, and memory", header, rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="default")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--texts", default=",".join((*LENGTHS, *REAL)))
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    chosen = _options()
    if chosen.run:
        print(json.dumps(measure(chosen.run, chosen)))
    else:
        main()
