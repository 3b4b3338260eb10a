"""A short tour on the embedded model: compare, rank, measure.

python examples/tour.py
"""

import time

from rich.console import Console
from rich.table import Table

import tertium
from tertium.data.samples import sample_pairs, sample_sentences
from tertium.evaluation import pearson, spearman


def main() -> None:
    """Load once, then three looks at the same question."""
    console = Console()
    with console.status("loading the embedded model"):
        start = time.perf_counter()
        model = tertium.load()
    console.print(f"[bold]tertium {tertium.__version__}[/]: how alike are these two texts?")
    console.print(
        f"[dim]{model.name}: all-MiniLM-L6-v2, {model.dimension} dimensions, pooling "
        f"{model.pooling}, loaded in {time.perf_counter() - start:.1f} s, no network[/]\n"
    )
    rank_pairs(console, model)
    nearest_sentences(console, model)
    small_evaluation(console, model)
    console.print('Next: [bold].venv/bin/tertium compare "one text" "another"[/], or make test')


def rank_pairs(console: Console, model: tertium.Encoder) -> None:
    """A few graded pairs, most alike first."""
    pairs = sample_pairs()[::4]
    cosines = model.score((pair.sentence1, pair.sentence2) for pair in pairs)
    table = Table("cosine", "", "one text", "another", "graded by hand", title="Pairs, ranked")
    ranked = sorted(zip(cosines, pairs, strict=True), key=lambda found: -found[0])
    for cosine, pair in ranked:
        bar = "█" * round(12 * max(float(cosine), 0.0))
        table.add_row(
            f"{cosine:.2f}",
            f"[cyan]{bar:<12}[/]",
            pair.sentence1,
            pair.sentence2,
            f"{pair.score:g} of 5",
        )
    console.print(table)


def nearest_sentences(console: Console, model: tertium.Encoder) -> None:
    """Semantic search in a dozen lines: one query against the sample sentences."""
    query = "My laptop will not switch on."
    sentences = sample_sentences()
    vectors = model.encode([query, *sentences], normalize=True)
    cosines = vectors[1:] @ vectors[0]
    table = Table("cosine", "sentence", title=f"Nearest to “{query}”")
    for at in cosines.argsort()[::-1][:3]:
        table.add_row(f"{cosines[at]:.2f}", sentences[at])
    console.print(table)


def small_evaluation(console: Console, model: tertium.Encoder) -> None:
    """The measure of the field, on forty pairs."""
    pairs = sample_pairs()
    gold = [pair.score for pair in pairs]
    cosines = model.score((pair.sentence1, pair.sentence2) for pair in pairs)
    table = Table("pairs", "Spearman x 100", "Pearson x 100", title="A tiny evaluation")
    table.add_row(
        str(len(pairs)),
        f"{100 * spearman(gold, cosines):.1f}",
        f"{100 * pearson(gold, cosines):.1f}",
    )
    console.print(table)


if __name__ == "__main__":
    main()
