"""The table of docs/performance.md: every way to a vector, beside sentence-transformers.

python benchmarks/measure.py --fastembed ENV/bin/python --model2vec ENV/bin/python
python benchmarks/measure.py --turbo turbo                       # a student beside them
python benchmarks/measure.py --sentences 60 --rounds 1           # to see that it runs
python benchmarks/measure.py --quality --model2vec ENV/bin/python --turbo turbo

Each contender has processes of its own (``contender.py``) and all take turns in every round;
figures are medians of the rounds. ``--quality`` prints STS averages instead of rates.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from common import data_folder, publish

from tertium.files import cache_folder

BASE = "sentence-transformers, default"
KINDS = ("STS-B", "SICK", "wiki")
SCRIPT = Path(__file__).with_name("contender.py")
Figures = dict[str, dict[str, float]]


def main() -> None:
    """Rounds of processes, medians, a table."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        requests = _requests(options, Path(folder))
        if options.quality:
            _publish_quality(requests)
            return
        from encode import real_texts

        texts = {kind: real_texts()[kind][: options.sentences] for kind in KINDS}
        rounds: list[Figures] = []
        for _ in range(options.rounds):
            found: Figures = {}
            for python, request in requests:
                found |= ask(python, {**request, "texts": texts})["figures"]
            rounds.append(_with_best(found))
    _publish(rounds, options)


def ask(python: str, request: dict) -> dict:
    """What ``contender.py`` answers."""
    given = json.dumps(request).encode()
    ran = subprocess.run([python, SCRIPT], input=given, capture_output=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{request['runner']}: {ran.stderr.decode()[-2000:]}")
    return json.loads(ran.stdout.splitlines()[-1])


def _requests(options: argparse.Namespace, folder: Path) -> list[tuple[str, dict]]:
    """A Python and a request for every contender, in the order of the table."""
    from tertium.models.names import resolve

    here, stock = sys.executable, str(resolve("default"))
    found: list[tuple[str, dict]] = [
        (here, {"runner": "sentence-transformers", "model": stock}),
        *((here, _ours("default", engine)) for engine in ("onnx", "onnx-int8", "auto", "static")),
    ]
    if options.turbo:
        engines = ("onnx", "onnx-int8", "static")
        found += [(here, _ours(options.turbo, engine)) for engine in engines]
    if options.fastembed:
        fed = fastembed_folder(folder / "fastembed")
        found.append((options.fastembed, {"runner": "fastembed", "model": str(fed)}))
    if options.model2vec:
        copy = cache_folder() / "benchmarks" / "model2vec"
        request = {"runner": "model2vec", "model": stock, "copy": str(copy)}
        found.append((options.model2vec, request))
    for python, request in found:  # exports and copies are made before anything is timed
        ask(python, {**request, "texts": {}})
    return found


def _ours(model: str, engine: str) -> dict:
    label = f"{Path(model).name}, {engine}"
    return {"runner": "tertium", "model": model, "engine": engine, "label": label}


def fastembed_folder(folder: Path, model: str = "default") -> Path:
    """The graph and tokenizer that fastembed is given."""
    import tertium
    from tertium.engines.export import export
    from tertium.models.names import resolve

    folder.mkdir()
    (part,) = export(tertium.load(model), "onnx")
    for file in part.folder.glob("model.onnx*"):
        shutil.copy(file, folder)
    for file in resolve("default").glob("*.json"):  # adapters have the tokenizer of their base
        shutil.copy(file, folder)
    return folder


def _with_best(found: Figures) -> Figures:
    """Batch sizes beside the default become one row, the best of each figure."""
    kept = {label: values for label, values in found.items() if "batch" not in label}
    for base in ("sentence-transformers", "fastembed"):
        rows = [values for label, values in found.items() if label.startswith(base)]
        if rows:
            best = {name: max(row[name] for row in rows) for name in KINDS}
            least = {name: min(row[name] for row in rows) for name in rows[0] if name not in KINDS}
            kept[f"{base}, best batch"] = best | least
    return kept


def _publish(rounds: list[Figures], options: argparse.Namespace) -> None:
    median = {
        label: {name: statistics.median(r[label][name] for r in rounds) for name in values}
        for label, values in rounds[0].items()
    }
    base = median[BASE]
    rows = []
    for label, values in median.items():
        rates = [f"{values[kind]:,.0f}, {values[kind] / base[kind]:.2f}" for kind in KINDS]
        single = [f"{values['p50']:.2f}", f"{values['p99']:.2f}"]
        ratio = f"{base['p50'] / values['p50']:.1f}"
        rows.append([label, *rates, *single, ratio, f"{values['memory']:.0f} MB"])
    header = ["model and engine", *(f"{kind}, sentences/s, x" for kind in KINDS)]
    header += ["one sentence, p50 ms", "p99 ms", "x", "peak memory"]
    title = f"Ways to a vector, {options.sentences:,} sentences of each kind, medians of "
    publish("measure", f"{title}{options.rounds} rounds in turn", header, rows)


def _publish_quality(requests: list[tuple[str, dict]]) -> None:
    """Average Spearman correlation on the seven STS tasks, from each contender's own vectors."""
    tasks, texts = sts_tasks()
    table = []
    for python, request in requests:
        answer = ask(python, {**request, "texts": {}, "wanted": texts})
        found = correlations(np.array(answer["vectors"], np.float32), texts, tasks)
        label = next(iter(answer["figures"]))
        table.append([label, f"{np.mean(found):.2f}", *(f"{x:.2f}" for x in found)])
    publish("measure_quality", "STS averages", ["model and engine", "average", *tasks], table)


def sts_tasks() -> tuple[dict[str, list], list[str]]:
    """The pairs of the seven STS tasks by name, and all their texts."""
    from tertium.data import benchmarks
    from tertium.recipes import suites

    tasks = {
        name: benchmarks.load(name, split="test", folder=data_folder()).rows
        for name in suites()["sts"].tasks
    }
    pairs = [row for rows in tasks.values() for row in rows]
    return tasks, sorted({text for row in pairs for text in (row.sentence1, row.sentence2)})


def correlations(vectors: np.ndarray, texts: list[str], tasks: dict[str, list]) -> list[float]:
    """Spearman's correlation times 100 on each task, from a vector for each text."""
    from scipy.stats import spearmanr

    places = {text: at for at, text in enumerate(texts)}
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    found = []
    for rows in tasks.values():
        one, other = (
            unit[[places[getattr(row, side)] for row in rows]]
            for side in ("sentence1", "sentence2")
        )
        gold = [row.score for row in rows]
        found.append(100 * float(spearmanr((one * other).sum(axis=1), gold).statistic))
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turbo", help="a student: its name or folder")
    parser.add_argument("--fastembed", help="a Python that has fastembed")
    parser.add_argument("--model2vec", help="a Python that has model2vec[distill]")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quality", action="store_true", help="STS averages instead of rates")
    return parser.parse_args()


if __name__ == "__main__":
    main()
