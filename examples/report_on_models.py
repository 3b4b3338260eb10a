"""A page about the two models that come with tertium, on the sample pairs.

python examples/report_on_models.py

Forty pairs make wide intervals: the page says so. Take a few hundred of your own.
"""

from pathlib import Path

from tertium.data.samples import PAIRS, SENTENCES
from tertium.report import build_report

FILE = PAIRS  # your own: Path("my_pairs.tsv"), with columns sentence1, sentence2, score


def main() -> None:
    """Build the page, and say which model is better, if that can be said."""
    built = build_report(["default", "sts"], Path("report"), pairs=[FILE], texts=SENTENCES)
    results = built.numbers["sections"]["results"]
    for name, found in results["figures"][FILE.name].items():
        low, high = found["interval"]
        print(f"{name:12} Spearman {found['spearman']:.1f}, between {low:.1f} and {high:.1f}")
    for entry in results["differences"][FILE.name]:
        one, two = entry["models"]
        sure = "told apart" if entry["p_holm"] < 0.05 else "not told apart"
        print(f"{one} and {two}: {entry['difference']:+.1f}, {sure} by these pairs")
    print(f"open {built.page}")


if __name__ == "__main__":
    main()
