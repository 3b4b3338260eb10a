"""A short tour on the models that come with tertium: grade, search, measure.

python examples/tour.py
"""

import time

import numpy as np
from rich.console import Console
from rich.table import Table

import tertium
from tertium.data.samples import sample_pairs, sample_sentences
from tertium.evaluation import pearson, spearman
from tertium.models import CarefulScorer, Embedder


def main() -> None:
    """Load once, then three looks at the same question."""
    console = Console()
    with console.status("loading the built-in models"):
        start = time.perf_counter()
        encoder, grader = tertium.load(), tertium.load("sts")
    assert isinstance(encoder, Embedder) and isinstance(grader, CarefulScorer)
    console.print(f"[bold]tertium {tertium.__version__}[/]: how similar are two texts?")
    console.print(
        f"[dim]{encoder.name}: all-MiniLM-L6-v2, {encoder.dimension} dimensions, pooling "
        f"{encoder.pooling}\n{grader.name}: the same, trained to grade pairs from "
        f"{grader.scale[0]:g} to {grader.scale[1]:g}, and to notice contradictions\n"
        f"both loaded in {time.perf_counter() - start:.1f} s, no network[/]\n"
    )
    rank_pairs(console, grader)
    nearest_sentences(console, encoder)
    small_evaluation(console, encoder, grader)
    console.print('Next: [bold].venv/bin/tertium compare "one text" "another"[/], or make test')


def rank_pairs(console: Console, grader: CarefulScorer) -> None:
    """A few graded pairs, most alike first."""
    pairs = sample_pairs()[::4]
    texts = [(pair.sentence1, pair.sentence2) for pair in pairs]
    graded = zip(grader.score(texts), grader.cosine(texts), pairs, strict=True)
    table = Table("of 5", "", "cosine", "one text", "another", "by hand", title="Pairs, graded")
    for grade, cosine, pair in sorted(graded, key=lambda found: -found[0]):
        bar = "█" * round(2 * float(grade))
        table.add_row(
            f"{grade:.1f}",
            f"[cyan]{bar:<10}[/]",
            f"{cosine:.2f}",
            pair.sentence1,
            pair.sentence2,
            f"{pair.score:.1f}",
        )
    console.print(table)


def nearest_sentences(console: Console, encoder: Embedder) -> None:
    """Semantic search in a dozen lines: one query against the sample sentences."""
    query = "My laptop will not switch on."
    sentences = sample_sentences()
    vectors = encoder.encode([query, *sentences], normalize=True)
    cosines = vectors[1:] @ vectors[0]
    table = Table("cosine", "sentence", title=f"Nearest to “{query}”")
    for at in cosines.argsort()[::-1][:3]:
        table.add_row(f"{cosines[at]:.2f}", sentences[at])
    console.print(table)


def small_evaluation(console: Console, encoder: Embedder, grader: CarefulScorer) -> None:
    """The measures of the field, on forty pairs; only a grade can be near the one by hand."""
    pairs = sample_pairs()
    texts = [(pair.sentence1, pair.sentence2) for pair in pairs]
    gold = np.array([pair.score for pair in pairs])
    table = Table(
        *("model", "pairs", "Spearman x 100", "Pearson x 100", "mean error, of 5"),
        title="A tiny evaluation",
    )
    for model in (encoder, grader):
        scores = model.score(texts)
        error = f"{abs(gold - scores).mean():.2f}" if model is grader else "a cosine is no grade"
        table.add_row(
            model.name,
            str(len(pairs)),
            f"{100 * spearman(gold, scores):.1f}",
            f"{100 * pearson(gold, scores):.1f}",
            error,
        )
    console.print(table)


if __name__ == "__main__":
    main()
