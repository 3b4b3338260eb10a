"""Which words made this score? Contributions, the smallest change, and a page to look at.

python examples/explain_a_score.py
"""

import tempfile
from pathlib import Path

import tertium
from tertium.explain.pictures import explanation_html, smallest_sentence
from tertium.models import CarefulScorer

PAIRS = [  # your own
    ("A man is playing a guitar.", "Someone plays an instrument."),
    ("My son is allergic to peanuts.", "My son is not allergic to peanuts."),
]


def main() -> None:
    """Explain each pair, and write its page."""
    model = tertium.load("sts")
    assert isinstance(model, CarefulScorer)
    folder = Path(tempfile.mkdtemp(prefix="tertium-"))
    for number, (a, b) in enumerate(PAIRS, 1):
        found = model.explain(a, b)
        print(f"{found.score:.2f} of {found.scale[1]:g}: {a} / {b}")
        for words, values in zip(found.words, found.occlusion, strict=True):
            pairs = zip(words, values, strict=True)
            print("  " + " ".join(f"{word.text} [{value:+.2f}]" for word, value in pairs))
        print(f"  {smallest_sentence(found)}")
        page = folder / f"pair-{number}.html"
        page.write_text(explanation_html(found), encoding="utf-8")
        print(f"  {page}")


if __name__ == "__main__":
    main()
