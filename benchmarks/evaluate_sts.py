"""The whole STS7 evaluation, against sentence-transformers' own evaluator.

python benchmarks/evaluate_sts.py
"""

import time

from common import data_folder, publish
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

import tertium
from tertium.data import benchmarks
from tertium.evaluation import run
from tertium.recipes import suites


def main() -> None:
    """Time both on the same model, data and threads; bootstrap off on both sides."""
    folder, tasks = data_folder(), suites()["sts"].tasks
    encoder = tertium.load()
    stock = SentenceTransformer(str(encoder.source), device="cpu")
    evaluators = {
        name: EmbeddingSimilarityEvaluator(
            [row.sentence1 for row in data.rows],
            [row.sentence2 for row in data.rows],
            [row.score for row in data.rows],
            batch_size=32,
            name=name,
            write_csv=False,
        )
        for name in tasks
        for data in [benchmarks.load(name, folder=folder, text="raw")]
    }
    encoder.encode(["warm up"] * 8)
    stock.encode(["warm up"] * 8)

    start = time.perf_counter()
    report = run(encoder, {"sts": tasks}, folder=folder, text="raw", resamples=0)
    ours = time.perf_counter() - start

    theirs, rows = 0.0, []
    results = {result.task: result for result in report["sts"].tasks}
    for name, evaluator in evaluators.items():
        start = time.perf_counter()
        scores = evaluator(stock)
        spent = time.perf_counter() - start
        theirs += spent
        mine, other = (
            results[name].values["spearman"],
            100 * scores[f"{name}_spearman_cosine"],
        )
        rows.append(
            [
                name,
                f"{mine:.4f}",
                f"{other:.4f}",
                f"{abs(mine - other) / 100:.1e}",
                f"{results[name].seconds:.1f}",
                f"{spent:.1f}",
                f"{spent / results[name].seconds:.2f}",
            ]
        )
    rows.append(["all", "", "", "", f"{ours:.1f}", f"{theirs:.1f}", f"**{theirs / ours:.2f}**"])
    header = ["task", "spearman", "theirs", "difference", "seconds", "theirs", "ratio"]
    publish("evaluate_sts", "STS7 evaluation against EmbeddingSimilarityEvaluator", header, rows)


if __name__ == "__main__":
    main()
