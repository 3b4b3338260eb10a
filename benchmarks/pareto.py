"""Speed against quality: engines of `sts`, its `turbo` student, and static forms.

tertium train turbo-minilm -o turbo
python benchmarks/pareto.py --turbo turbo
python benchmarks/pareto.py --turbo turbo --fastembed ENV/bin/python      # fastembed beside them
python benchmarks/pareto.py --sentences 100 --rounds 1 --tasks STS16      # to see that it runs

Each contender has processes of its own and all take turns in every round, as in engines.py.
Quality is the average Spearman correlation on the seven STS tasks.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import RESULTS, data_folder, publish
from encode import real_texts
from measure import ask, fastembed_folder

import tertium

BASELINE = "sentence-transformers, default"
TEACHER = "sts"
INT8 = ("onnx-int8", "openvino-int8")


def main() -> None:
    """Rates in rounds, then the quality of each, a table and a picture."""
    options = _options()
    chosen = [(TEACHER, name) for name in ("torch", "onnx", "openvino", *INT8)]
    chosen.append(("default", "static"))
    if options.turbo:
        chosen += [(options.turbo, name) for name in ("torch", "openvino", *INT8, "static")]
    rates: dict[str, float] = {}
    for _ in range(options.rounds):
        for name, rate in _round(chosen, options).items():
            rates[name] = max(rate, rates.get(name, 0.0))
    only = [f"--tasks={options.tasks}"] if options.tasks else []
    points = {
        _label(*each): _process(json.dumps(each), options, "--quality", *only) for each in chosen
    }
    points[BASELINE] = points[_label(TEACHER, "torch")]  # the same layers, the same cost
    points |= {name: points[_label(TEACHER, "onnx")] for name in rates if "fastembed" in name}
    rows = _rows(rates, points)
    header = ["model and engine", "sentences/s", "x baseline", "STS average", "of the teacher's"]
    title = f"Speed against quality, {options.sentences:,} STS-B sentences, best of "
    publish("pareto", f"{title}{options.rounds} rounds", header, rows)
    _draw(rates, points)


def _round(chosen: list[tuple[str, str]], options: argparse.Namespace) -> dict[str, float]:
    found = {BASELINE: _process("sentence-transformers", options)}
    found |= {_label(*each): _process(json.dumps(each), options) for each in chosen}
    return found | (_fastembed(options) if options.fastembed else {})


def measure(run: str, options: argparse.Namespace) -> float:
    """Sentences a second of one contender, in this process."""
    texts = real_texts()["STS-B"][: options.sentences]
    if run == "sentence-transformers":
        from sentence_transformers import SentenceTransformer

        encode = SentenceTransformer(str(tertium.load().source), device="cpu").encode
    else:
        model, engine = json.loads(run)
        encode = tertium.load(model, engine=engine).encode
    encode(texts[:200])
    begin = time.perf_counter()
    encode(texts)
    return len(texts) / (time.perf_counter() - begin)


def quality(run: str, options: argparse.Namespace) -> float:
    """Average Spearman correlation of one contender, in this process."""
    from tertium.evaluation import run as evaluate
    from tertium.recipes import suites

    tasks = options.tasks.split(",") if options.tasks else suites()["sts"].tasks
    name, engine = json.loads(run)
    model = tertium.load(name, engine=engine)
    report = evaluate(model, {"sts": tasks}, folder=data_folder(), resamples=0)
    return float(np.mean([result.values["spearman"] for result in report["sts"].tasks]))


def _process(run: str, options: argparse.Namespace, *more: str) -> float:
    command = [sys.executable, __file__, f"--run={run}", f"--sentences={options.sentences}", *more]
    return float(subprocess.check_output(command).splitlines()[-1])


def _fastembed(options: argparse.Namespace) -> dict[str, float]:
    """The same ONNX file in fastembed; its vectors must be ours."""
    texts = real_texts()["STS-B"][: options.sentences]
    with tempfile.TemporaryDirectory() as name:
        folder = fastembed_folder(Path(name) / "fastembed", TEACHER)
        request = {"runner": "fastembed", "model": str(folder), "wanted": texts[:1]}
        answer = ask(options.fastembed, {**request, "texts": {"STS-B": texts}})
    rates = {label: values["STS-B"] for label, values in answer["figures"].items()}
    ours, theirs = tertium.load(TEACHER).encode(texts[:1])[0], np.array(answer["vectors"][0])
    cosine = float(ours @ theirs / np.linalg.norm(ours) / np.linalg.norm(theirs))
    if cosine < 0.9999:
        raise SystemExit(f"fastembed gives another vector: cosine {cosine:.4f}")
    return {
        "fastembed, the same ONNX file, default batch": rates["fastembed, default"],
        "fastembed, the same, best batch": max(rates.values()),
    }


def _rows(rates: dict[str, float], points: dict[str, float]) -> list[list[str]]:
    full = points[_label(TEACHER, "torch")]
    return [
        [
            name,
            f"{rate:,.0f}",
            f"{rate / rates[BASELINE]:.2f}",
            f"{points[name]:.2f}",
            f"{100 * points[name] / full:.1f} %",
        ]
        for name, rate in sorted(rates.items(), key=lambda item: item[1])
    ]


def _draw(rates: dict[str, float], points: dict[str, float]) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    models: dict[str, list[str]] = {}
    for name in rates:
        models.setdefault(name.split(",")[0], []).append(name)
    for model, marker in zip(models, "o^sDv", strict=False):
        for name in models[model]:
            axes.plot(rates[name], points[name], marker, linestyle="none", label=name)
    axes.set(xscale="log", xlabel="sentences a second", ylabel="Spearman, mean of seven STS tasks")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="x-small", loc="lower left")
    figure.savefig(RESULTS / "pareto.png", dpi=150)


def _label(model: str, engine: str) -> str:
    return f"{Path(model).name}, {engine}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turbo", help="the student, from: tertium train turbo-minilm -o turbo")
    parser.add_argument("--fastembed", help="a Python that has fastembed")
    parser.add_argument("--sentences", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", help="instead of all seven")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--quality", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    given = _options()
    if given.run:
        print((quality if given.quality else measure)(given.run, given))
    else:
        main()
